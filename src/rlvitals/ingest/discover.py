"""Which files of a run directory hold its step metrics: the candidates, best kinds first."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

Candidate = tuple[Path, ...]  # the files of one run that belong together: one, or a tracker's file per start

MAX_LEVELS = 5  # folders below the one named
MAX_FOLDERS = 500  # visited in all
MAX_CANDIDATES = 24  # files of one kind; more are several runs, not one

# Kinds in order of preference; within a kind the file with most values wins.
STATE = {"logging.jsonl": "ms-swift log", "trainer_state.json": "trainer state"}
KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("JSONL", (".jsonl", ".ndjson")),
    ("CSV", (".csv", ".tsv")),
    ("parquet", (".parquet",)),
    ("TensorBoard", ()),
    ("W&B files", (".wandb",)),
    ("MLflow run", ()),
    ("SwanLab run", (".swanlab",)),
    ("SQLite store", (".db", ".sqlite", ".sqlite3")),
    ("JSON", (".json",)),
    ("notebook", (".ipynb",)),
    ("console log", (".log", ".out", ".txt", ".err")),
)
TRACKERS = (
    "TensorBoard",
    "W&B files",
    "MLflow run",
    "SwanLab run",
    "SQLite store",
)  # sinks that repeat what a log file says
_PACKED = (".gz", ".zst")
_CHECKPOINT = re.compile(r"(?:checkpoint|global_step|step|iter)[-_]?(\d+)")
_HPARAMS_FOLDER = re.compile(r"\d{10}\.\d+")  # SummaryWriter.add_hparams writes into a folder of its own
_TIME_FOLDER = re.compile(  # TRL's Nov29_11-19-09_host, slime's 20261129_100000, OpenRLHF's ppo_1129T10:00
    r"^[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}(?:_|$)|^\d{8}[-_]\d{6}$|_\d{4}T\d{2}[:_-]?\d{2}$"
)
_SKIPPED_FOLDERS = frozenset(
    {".git", ".hydra", "__pycache__", "node_modules", ".venv", "venv", "site-packages", ".cache", "completions",
     "rollouts", "rollout", "validation", "generations", "samples", "traces", "dumped_evals", "episodes", ".trash",
     "wandb_artifacts", "artifacts", "configs", ".rlvitals"}
)  # fmt: skip
_NOT_STEPS = re.compile(
    r"^(args|config|.*_config|params|hparams|tokenizer.*|vocab.*|special_tokens_map|added_tokens|generation_config|"
    r"all_results|eval_results|train_results|.*summary|.*index|checkpoints|timing_spans|results_.*|requirements|readme|"
    r"license|merges|package.*|completions.*|.*rollouts?.*|.*_outputs|.*samples.*|dataset.*|predictions.*|\d+|"
    r"(?:train|val|eval)_data_step.*|.*trajector.*|aggregated_results|metadata|debug|debug-.*|wandb-metadata|swanlab-metadata|.*_logtree|training_info)$",
    re.IGNORECASE,
)


def is_mlflow_run(folder: Path) -> bool:
    """True for the folder of one run in MLflow's file store."""
    return (folder / "meta.yaml").is_file() and (folder / "metrics").is_dir()


def is_checkpoint(folder_name: str) -> bool:
    return _CHECKPOINT.fullmatch(folder_name) is not None


def kind_of(path: Path) -> str:
    """Return the kind of log that a file name promises, "" for none."""
    name = path.name.lower()
    if ".tfevents." in name:
        return "TensorBoard"
    for packed in _PACKED:
        name = name.removesuffix(packed)
    if name in STATE:
        return STATE[name]
    stem, dot, suffix = name.rpartition(".")
    if not dot or _NOT_STEPS.match(stem):
        return ""
    return next((kind for kind, suffixes in KINDS if "." + suffix in suffixes), "")


def within(path: Path, folders: Collection[Path]) -> bool:
    """True when a path is one of the folders or lies below one."""
    return any(path.is_relative_to(folder) for folder in folders)


def has_log(folder: Path) -> bool:
    """True when a folder holds a log of its own, directly or as trainer_state.json in a checkpoint folder."""
    try:
        entries = list(folder.iterdir())
        inside = [inner for e in entries if e.is_dir() and is_checkpoint(e.name) for inner in e.iterdir()]
    except OSError:
        return False
    return any(e.is_file() and kind_of(e) for e in entries) or any(inner.name in STATE for inner in inside)


def candidates(directory: Path, *, every_level: bool = False) -> dict[str, list[Candidate]]:
    """Return kind -> candidates, best kind first; only the highest level of the tree that has any of a kind."""
    found: dict[str, list[Path]] = {kind: [] for kind in (*STATE.values(), *(kind for kind, _ in KINDS))}
    depth: dict[str, int] = {}
    for level, path in _walk(directory):
        kind = "MLflow run" if path.is_dir() else kind_of(path)
        if kind == "TensorBoard" and _HPARAMS_FOLDER.fullmatch(path.parent.name):
            level = max(level - 1, 0)  # the writer's own subfolder
        if kind and (depth.setdefault(kind, level) == level or every_level):
            found[kind].append(path)
    found["trainer state"] = newest(found["trainer state"])
    out: dict[str, list[Candidate]] = {}
    for kind, paths in found.items():
        if kind == "TensorBoard":
            paths.sort(key=lambda path: (_HPARAMS_FOLDER.fullmatch(path.parent.name) is not None, path))
            out[kind] = _grouped(paths, _event_folder)
        elif kind == "W&B files":
            out[kind] = _grouped(sorted(paths), lambda path: path.name)
        else:
            out[kind] = [(path,) for path in sorted(paths)]
    return {kind: groups for kind, groups in out.items() if groups}


def _grouped(paths: list[Path], key: Callable[[Path], str]) -> list[Candidate]:
    """Return the files with the same key together, in their order."""
    groups: dict[str, list[Path]] = {}
    for path in paths:
        groups.setdefault(key(path), []).append(path)
    return [tuple(group) for group in groups.values()]


def _event_folder(path: Path) -> str:
    """Return the folder of an event file's run: one level up from folders that are named by the time of a start."""
    folder = path.parent
    if _HPARAMS_FOLDER.fullmatch(folder.name):
        folder = folder.parent
    return str(folder.parent / "*") if _TIME_FOLDER.search(folder.name) else str(folder)


def home_of(path: Path) -> Path:
    """Return the folder whose log a file is: that of the run for one in a checkpoint or in a tracker's own folder."""
    folder = path.parent
    while is_checkpoint(folder.name) or _HPARAMS_FOLDER.fullmatch(folder.name):
        folder = folder.parent
    return folder


def newest(states: list[Path]) -> list[Path]:
    """Of trainer_state.json files keep, per run folder, the root one, else that of the newest checkpoint."""
    best: dict[Path, tuple[int, Path]] = {}
    for path in states:
        match = _CHECKPOINT.fullmatch(path.parent.name)
        run = path.parent.parent if match else path.parent
        step = int(match[1]) if match else 2**62  # the root file is written last
        if run not in best or step > best[run][0]:
            best[run] = (step, path)
    return [path for _, path in best.values()]


def _walk(directory: Path) -> Iterator[tuple[int, Path]]:
    """Yield (level, file), level by level; a checkpoint folder counts to the level of the folder that holds it."""
    if is_mlflow_run(directory):
        yield 0, directory
        return
    folders = [(0, directory)]
    visited = 0
    while folders and visited < MAX_FOLDERS:
        level, folder = folders.pop(0)
        visited += 1
        try:
            entries = sorted(folder.iterdir())
        except OSError:
            continue
        for entry in entries:
            if entry.is_file() or (entry.is_dir() and is_mlflow_run(entry)):
                yield level, entry
            elif entry.is_dir() and not entry.is_symlink() and entry.name.lower() not in _SKIPPED_FOLDERS:
                inside = level if is_checkpoint(entry.name) else level + 1
                if inside <= MAX_LEVELS:
                    folders.append((inside, entry))
