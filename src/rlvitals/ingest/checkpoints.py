"""Checkpoints on disk, as events: TRL and HF folders, verl, OpenRLHF, NeMo-RL, prime-rl, chapter 7, tinker's list."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from rlvitals.ingest.checkpoint_layouts import state_of, step_of
from rlvitals.ingest.discover import within
from rlvitals.schema import Event, EventKind

MAX_FOLDERS = 2_000  # folders that are looked into (convention)
MAX_LEVELS = 4  # below the run directory: verl writes checkpoints/<project>/<experiment>/global_step_N
MAX_JSON_BYTES = 20_000_000

_HF = re.compile(r"checkpoint-(\d+)")
_VERL = re.compile(r"global_step_?(\d+)")
_CHAPTER7 = re.compile(r".*-step(\d+)(-interrupt)?\.pth")
_SHARD_OF = re.compile(r"-\d{5}-of-(\d{5})\.(?:safetensors|bin)$")

_WHOLE_WEIGHTS = ("model.safetensors", "pytorch_model.bin", "adapter_model.safetensors", "adapter_model.bin")
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_VERL_SHARD = re.compile(r"model_world_size_(\d+)_rank_(\d+)\.pt")
_SKIPPED = frozenset({".git", "__pycache__", "node_modules", ".venv", "wandb", "mlruns"})
_SMALLEST_WEIGHTS = 1  # bytes: an empty file is an interrupted write


def find_checkpoints(directory: Path, without: Collection[Path] = ()) -> tuple[Event, ...]:
    """Return the checkpoints below a run directory, by step; paths are relative to it.

    Folders of other runs, `without`, are left out.
    """
    found: dict[str, Event] = {}
    for folder in _folders(directory):
        if within(folder, without):
            continue
        for event in _in_folder(folder, directory):
            found.setdefault(event.path, event)
    return tuple(sorted(found.values(), key=lambda event: (event.step or 0, event.path)))


def _folders(top: Path) -> Iterator[Path]:
    level, visited = [top], 0
    for _ in range(MAX_LEVELS + 1):
        below: list[Path] = []
        for folder in level:
            yield folder
            visited += 1
            if visited >= MAX_FOLDERS:
                return
            below += [inner for inner in _subfolders(folder) if not _checkpoint_name(inner.name)]
        level = below


def _checkpoint_name(name: str) -> bool:
    return bool(_HF.fullmatch(name) or _VERL.fullmatch(name) or step_of(name) is not None)


def _subfolders(folder: Path) -> list[Path]:
    try:
        inner = [entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()]
    except OSError:
        return []
    return sorted(entry for entry in inner if entry.name not in _SKIPPED)


def _in_folder(folder: Path, top: Path) -> Iterator[Event]:
    latest = _verl_latest(folder)
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        hf, verl, pth = _HF.fullmatch(entry.name), _VERL.fullmatch(entry.name), _CHAPTER7.fullmatch(entry.name)
        if hf and entry.is_dir():
            yield _event(int(hf[1]), entry, top, *_hf_state(entry))
        elif (other := step_of(entry.name)) is not None and entry.is_dir() and (state := state_of(entry)):
            yield _event(other, entry, top, *state)
        elif verl and entry.is_dir():
            yield _event(int(verl[1]), entry, top, *_verl_state(entry, int(verl[1]), latest))
        elif pth and entry.is_file():
            size = _size(entry)
            why = "" if size >= _SMALLEST_WEIGHTS else "empty file"
            yield _event(int(pth[1]), entry, top, not why, why or ("saved at an interrupt" if pth[2] else ""))
        elif entry.name == "checkpoints.jsonl" and entry.is_file():
            yield from _tinker(entry)


def _event(step: int, entry: Path, top: Path, complete: bool, detail: str) -> Event:
    path = entry.relative_to(top).as_posix()
    return Event(EventKind.CHECKPOINT, step, detail=detail, path=path, complete=complete)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _hf_state(folder: Path) -> tuple[bool, str]:
    """Return whether a checkpoint-N folder holds all its weights, and what is missing."""
    if any(_size(folder / name) >= _SMALLEST_WEIGHTS for name in _WHOLE_WEIGHTS):
        return True, ""
    for name in _INDEXES:
        index = _json(folder / name)
        shards = index.get("weight_map") if isinstance(index, dict) else None
        if isinstance(shards, dict):
            wanted = sorted({str(shard) for shard in shards.values()})
            missing = [shard for shard in wanted if not _inside(folder, shard)]
            return not missing, f"missing {missing[0]}" if missing else ""
    shards_seen = [hit for file in folder.iterdir() if (hit := _SHARD_OF.search(file.name))]
    if shards_seen:
        return False, f"{len(shards_seen)} of {int(shards_seen[0][1])} shards, no index"
    if any(inner.name.startswith("global_step") for inner in _subfolders(folder)):
        return True, "DeepSpeed shards"  # their number is not written anywhere in text
    return False, "no model weights"


def _inside(folder: Path, name: str) -> bool:
    """True for a non-empty file of the folder; a name that leads out of it is none."""
    return "/" not in name and "\\" not in name and _size(folder / name) >= _SMALLEST_WEIGHTS


def _verl_latest(folder: Path) -> int | None:
    """Return the last step that verl finished saving; it writes this file after the shards."""
    file = folder / "latest_checkpointed_iteration.txt"
    try:
        return int(file.read_text(encoding="utf-8", errors="replace")[:32].strip())
    except (OSError, ValueError):
        return None


def _verl_state(folder: Path, step: int, latest: int | None) -> tuple[bool, str]:
    if latest is not None and step > latest:
        return False, f"newer than latest_checkpointed_iteration.txt ({latest})"
    actor = folder / "actor"
    if not actor.is_dir():
        return False, "no actor folder"
    shards = [hit for file in actor.iterdir() if (hit := _VERL_SHARD.fullmatch(file.name)) and _size(file)]
    if shards:
        world = int(shards[0][1])
        missing = world - len({hit[2] for hit in shards})
        return missing <= 0, f"{missing} of {world} model shards missing" if missing > 0 else ""
    others = ("huggingface", "dist_ckpt", "lora_adapter", "model")
    if any((actor / name).is_dir() and any((actor / name).iterdir()) for name in others):
        return True, ""
    return False, "no model shards"


def _tinker(file: Path) -> Iterator[Event]:
    """Yield the rows of tinker's checkpoints.jsonl; the weights lie on the server under `state_path`."""
    if _size(file) > MAX_JSON_BYTES:
        return
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(row, dict):
            continue
        step, path = row.get("batch"), row.get("state_path") or row.get("sampler_path")
        if isinstance(step, int) and not isinstance(step, bool) and isinstance(path, str):
            resumable = bool(row.get("state_path"))
            why = "" if resumable else "sampler weights only: no training state"
            yield Event(EventKind.CHECKPOINT, step, detail=why, path=path, complete=resumable)


def _json(file: Path) -> object:
    try:
        if not file.is_file() or _size(file) > MAX_JSON_BYTES:
            return None
        return json.loads(file.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return None
