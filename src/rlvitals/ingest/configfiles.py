"""The config beside a run: Hydra, YAML, JSON, TOML, W&B, model cards. Text only: no pickle is opened."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from rlvitals.ingest.adapter import Adapter
from rlvitals.ingest.configmap import FoundConfig, config_from_mapping, map_config
from rlvitals.ingest.configtext import config_from_text, scan_text
from rlvitals.ingest.discover import within
from rlvitals.runconfig import coerce
from rlvitals.schema import Note, RunConfig

__all__ = [
    "config_from_mapping",
    "config_from_text",
    "find_config",
    "locate_config",
    "read_config_file",
    "read_mapping",
]

MAX_BYTES = 5_000_000  # of one config file (convention: resolved verl configs take 50 kB)
MAX_LEVELS_UP = 3  # folders above a log that are looked at
MAX_LEVELS_DOWN = 5  # AReaL writes <fileroot>/logs/<user>/<experiment>/<trial>/config.yaml
MAX_FOLDERS = 400  # visited in all

# In order of trust; a later one only fills gaps.
NAMES: tuple[str, ...] = (
    ".hydra/config.yaml",
    "args.json",
    "config.json",
    "config.yaml",
    "config.yml",
    "config.toml",
    "params.json",
    "hparams.yaml",
    "training_args.json",
    "training_config.json",
    "train_config.yaml",
    "grpo_config.yaml",
    "resolved_config.json",
    "files/config.yaml",
    "rl.json",
    "rl.toml",
    "orchestrator.json",
    "orchestrator.toml",
    "trainer.json",
    "trainer.toml",
    "adapter_config.json",
)
MODEL_CARD = "README.md"  # beside the run alone: further away it is about something else
RUN_FOLDERS: tuple[str, ...] = (
    "outputs/*/*",
    "wandb/*run-*",
)  # Hydra and W&B, relative to where a run was started
SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", "venv", "site-packages", ".cache"})
PROJECT_ROOT = (".git", "pyproject.toml")  # nothing above a folder that has one of these belongs to the run
MODEL_CONFIG_KEYS = frozenset({"architectures", "hidden_size", "num_hidden_layers"})  # a model's config.json


def find_config(path: Path, adapter: Adapter) -> RunConfig:
    """Return what the config files beside a run directory or a log file say; unknown fields stay None."""
    return locate_config(path, adapter).config


def locate_config(path: Path, adapter: Adapter, without: Collection[Path] = ()) -> FoundConfig:
    """Return the config found beside a run, with a note for each file or value that could not be used.

    Nearest first: the run's own folder, then below it, then above it while nothing was found. Files at one
    distance that contradict each other leave the field unknown. Folders of other runs, `without`, are left out.
    """
    base = path if path.is_dir() else path.parent
    found = FoundConfig()
    for folders in _groups(base, inside=path.is_dir()):
        group = [folder for folder in folders if not within(folder, without)]
        if not group:
            continue
        if found.config.known() and not group[0].is_relative_to(base):
            break  # above the run: only when nothing nearer was found
        more = _agreed([_read_folder(folder, adapter, base, path) for folder in group])
        found = more.then(found)
    return FoundConfig(adapter.fixed).then(found)


def _read_folder(folder: Path, adapter: Adapter, base: Path, log: Path) -> FoundConfig:
    found = FoundConfig()
    for name in (*NAMES, MODEL_CARD) if folder == base else NAMES:
        file = folder / name
        if file != log and file.is_file():
            found = read_config_file(file, adapter, base).then(found)
    return found


def _agreed(several: list[FoundConfig]) -> FoundConfig:
    """Return the configs of one distance as one; a field on which they differ is unknown, with a note."""
    told = [each for each in several if each.config.known()]
    merged = FoundConfig()
    for each in several:
        merged = merged.then(each)
    unlike = {
        field
        for field, value in merged.config.known().items()
        for each in told
        if getattr(each.config, field) not in (None, value)
    }
    if not unlike:
        return merged
    sources = {field: at for field, at in merged.config.sources.items() if field not in unlike}
    nothing: dict[str, None] = dict.fromkeys(unlike)
    config = replace(merged.config, sources=sources, **nothing)  # type: ignore[arg-type]
    text = f"{len(told)} config files differ in {', '.join(sorted(unlike))}: these stay unknown"
    return FoundConfig(config, (*merged.notes, Note(text)))


def read_config_file(file: Path, adapter: Adapter, base: Path | None = None) -> FoundConfig:
    """Return what one config file says; an unreadable one is a note, no error: a run needs no config."""
    shown = _shown(file, base)
    try:
        if file.stat().st_size > MAX_BYTES:
            return FoundConfig(notes=(Note(f"config file skipped: larger than {MAX_BYTES:,} bytes", file=shown),))
        text = file.read_text(encoding="utf-8", errors="replace")
        if file.suffix == ".md":
            return scan_text(text, adapter, shown)
        mapping = _parse(file, text)
    except (OSError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        return FoundConfig(notes=(Note(f"config file could not be read: {reason}", file=shown),))
    if mapping is None:
        return FoundConfig()
    if file.name == "adapter_config.json" and "peft_type" in mapping:  # mlx-lm writes its settings under this name
        return _model_facts(mapping, shown)
    found = read_mapping(mapping, adapter, shown)
    return _overrides(file, adapter, base).then(found)


def read_mapping(mapping: Mapping[str, object], adapter: Adapter, shown: str) -> FoundConfig:
    """Return what settings say, wherever they were kept; a saved model's config says its vocabulary size only."""
    if set(mapping) >= MODEL_CONFIG_KEYS:
        return _model_facts(mapping, shown)
    return map_config(mapping, adapter, shown)


def _overrides(file: Path, adapter: Adapter, base: Path | None) -> FoundConfig:
    """Return Hydra's overrides.yaml beside its config.yaml, which holds them already: it only fills gaps."""
    beside = file.parent / "overrides.yaml"
    if file.parent.name != ".hydra" or not beside.is_file() or beside.stat().st_size > MAX_BYTES:
        return FoundConfig()
    text = beside.read_text(encoding="utf-8", errors="replace")
    return scan_text(text, adapter, _shown(beside, base))


def _parse(file: Path, text: str) -> Mapping[str, object] | None:
    """Return the file's top-level mapping, None when it holds something else.

    Raises:
        ValueError: the text is not valid in the file's format.
    """
    value: object
    if file.suffix == ".json":
        value = json.loads(text)
    elif file.suffix == ".toml":
        import tomllib

        value = tomllib.loads(text)
    else:
        value = _yaml(text)
    return {str(key): inner for key, inner in value.items()} if isinstance(value, dict) else None


def _yaml(text: str) -> object:
    import yaml  # imported here: start-up stays light

    try:
        aliases = sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader))
        if aliases > 200:  # nested aliases can expand without bound; real configs have a handful
            raise ValueError(f"{aliases} YAML aliases; expected at most 200")
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"not valid YAML: {error}") from error


def _model_facts(mapping: Mapping[str, object], shown: str) -> FoundConfig:
    """Return the vocabulary size of a saved model's config.json, or that an adapter was trained."""
    if "peft_type" in mapping:
        return FoundConfig(RunConfig(uses_lora=True, sources={"uses_lora": f"{shown}: peft_type"}))
    size = coerce("vocab_size", mapping.get("vocab_size"))
    if not isinstance(size, int):
        return FoundConfig()
    return FoundConfig(RunConfig(vocab_size=size, sources={"vocab_size": f"{shown}: vocab_size"}))


def _groups(base: Path, *, inside: bool) -> Iterator[list[Path]]:
    """Yield the folders to look in, those of one distance together: the run's, below it, above it."""
    yield [base]
    level = [base]
    visited = 0
    for _ in range(MAX_LEVELS_DOWN if inside else 0):
        level = [inner for folder in level for inner in _subfolders(folder)][: MAX_FOLDERS - visited]
        visited += len(level)
        if level:
            yield level
    if not inside:
        yield from _started_runs(base)
    above = base.resolve()
    for _ in range(MAX_LEVELS_UP):
        if above == above.parent or any((above / name).exists() for name in PROJECT_ROOT):
            return
        above = above.parent
        yield [above]
        yield from _started_runs(above)


def _started_runs(folder: Path) -> Iterator[list[Path]]:
    for pattern in RUN_FOLDERS:
        hits = sorted(hit for hit in folder.glob(pattern) if hit.is_dir())[:MAX_FOLDERS]
        if hits:
            yield hits


def _subfolders(folder: Path) -> list[Path]:
    try:
        inner = [entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()]
    except OSError:
        return []
    return sorted(entry for entry in inner if entry.name not in SKIPPED and not entry.name.startswith("."))


def _shown(file: Path, base: Path | None) -> str:
    return Path(os.path.relpath(file, base)).as_posix() if base is not None else file.name
