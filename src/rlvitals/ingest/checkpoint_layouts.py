"""Checkpoint folders named by their step alone: OpenRLHF, NeMo-RL, prime-rl and our own trainer.

A folder `step_N` or `global_stepN` says whose it is by what lies in it. Nothing is opened but small text files.
"""

from __future__ import annotations

import re
from pathlib import Path

_STEP = re.compile(r"step[_-](\d{1,12})")
_OPENRLHF = re.compile(r"global_step(\d{1,12})")
_MODEL_STATES = re.compile(r"(?:zero_pp_rank_\d+_)?mp_rank_\d+_model_states\.pt")
_OPTIMIZER_STATES = re.compile(r".*zero_pp_rank_\d+_mp_rank_\d+_optim_states\.pt")
_DISTCP = re.compile(r"__\d+_\d+\.distcp")

State = tuple[bool, str]
"""(complete, what is missing)."""


def step_of(name: str) -> int | None:
    """Return the step in the name of such a folder, None for another name."""
    hit = _STEP.fullmatch(name) or _OPENRLHF.fullmatch(name)
    return int(hit[1]) if hit else None


def state_of(folder: Path) -> State | None:
    """Return whether a step folder is a complete checkpoint; None when it is no checkpoint of these trainers."""
    if _OPENRLHF.fullmatch(folder.name):
        return _openrlhf(folder)
    if (folder / "training_info.json").is_file() or (folder / "policy").is_dir():
        return _nemo_rl(folder)
    if folder.parent.name == "weights" or (folder / "trainer").is_dir() or (folder / "STABLE").exists():
        return _prime_rl(folder)
    return None


def _files(folder: Path) -> list[Path]:
    try:
        return [f for f in folder.iterdir() if f.is_file() and f.stat().st_size > 0]
    except OSError:
        return []


def _openrlhf(folder: Path) -> State | None:
    """DeepSpeed writes one model file per rank and `latest` beside the folder once all of them are there."""
    names = [f.name for f in _files(folder)]
    if not any(_MODEL_STATES.fullmatch(n) or _OPTIMIZER_STATES.fullmatch(n) for n in names):
        return None
    if not any(_MODEL_STATES.fullmatch(n) for n in names):
        return False, "no model states"
    try:
        latest = step_of((folder.parent / "latest").read_text(encoding="utf-8", errors="replace")[:64].strip())
    except OSError:
        return False, "no file `latest` beside it: the save was not finished"
    own = step_of(folder.name)
    late = latest is not None and own is not None and own > latest
    return (False, f"newer than `latest` (step {latest})") if late else (True, "")


def _nemo_rl(folder: Path) -> State:
    """NeMo-RL renames tmp_step_N to step_N when everything is written, weights in policy/weights."""
    if not (folder / "training_info.json").is_file():
        return False, "no training_info.json"
    weights = folder / "policy" / "weights"
    if not weights.is_dir():
        return False, "no policy/weights"
    inner = [*_files(weights), *(f for sub in weights.iterdir() if sub.is_dir() for f in _files(sub))]
    return (True, "") if inner else (False, "policy/weights is empty")


def _prime_rl(folder: Path) -> State:
    """prime-rl writes weights/step_N with a STABLE marker, and checkpoints/step_N/trainer as distributed shards."""
    if folder.parent.name == "weights":
        if not (folder / "STABLE").exists():
            return False, "no STABLE marker"
        return (True, "weights only: no optimizer") if _files(folder) else (False, "empty")
    trainer = folder / "trainer"
    shards = [f for f in _files(trainer) if _DISTCP.fullmatch(f.name)]
    if trainer.is_dir() and not (trainer / ".metadata").is_file() and shards:
        return False, "no .metadata: the save was not finished"
    return (True, "") if shards or _files(trainer) else (False, "no trainer state")
