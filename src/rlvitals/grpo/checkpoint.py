"""Checkpoints: everything that the next step depends on, in one folder that is complete or not there at all.

A folder is written under another name, its files are flushed to disk, and only then it takes its own name. Nothing
is pickled: weights are safetensors, the optimizer's state is read as tensors alone, the rest is JSON. Only the newest
ones keep their optimizer; older ones remain as weights to roll back to.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from rlvitals.errors import InputError, Problem
from rlvitals.grpo.logs import refused

FOLDER = "checkpoints"
STATE, OPTIMIZER, REFERENCE = "state.json", "optimizer.pt", "reference.safetensors"
RESUMABLE = 3  # newest checkpoints that keep the optimizer's state, twice the size of the weights (convention)
_NAME = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True)
class Saved:
    """A checkpoint on disk."""

    step: int
    folder: Path
    state: Mapping[str, Any]


def save(
    run_folder: Path, step: int, model: nn.Module, tokenizer: Any, optimizer: Mapping[str, Any],
    reference: Mapping[str, torch.Tensor], state: Mapping[str, Any], *,
    weights: Mapping[str, torch.Tensor] | None = None,
) -> Path:  # fmt: skip
    """Write a checkpoint and return its folder. Raises InputError when the disk refuses; no half one stays.

    optimizer: its whole state; weights: those of the model where it cannot give them itself, as when it is sharded.
    """
    target = run_folder / FOLDER / f"checkpoint-{step}"
    with written(target, run_folder) as draft:
        given = {} if weights is None else {"state_dict": dict(weights)}
        cast("Any", model).save_pretrained(draft, max_shard_size="1TB", **given)
        tokenizer.save_pretrained(draft)
        torch.save(optimizer, draft / OPTIMIZER)
        if reference:
            save_file({k: v.detach().cpu().contiguous().clone() for k, v in reference.items()}, draft / REFERENCE)
        sizes = {p.name: p.stat().st_size for p in sorted(draft.iterdir()) if p.is_file()}
        text = json.dumps({**state, "step": step, "random": _random_state(), "files": sizes})
        (draft / STATE).write_text(text, encoding="utf-8")
    with refused(run_folder):
        _thin(run_folder)
    return target


@contextmanager
def written(target: Path, run_folder: Path, hint: str = "") -> Iterator[Path]:
    """Give a folder to write into; it gets its name when all its bytes are on disk, and goes after any error.

    hint: what to do when the disk refuses, without one how the run goes on. Raises InputError when the disk refuses.
    """
    draft = target.with_name(target.name + ".tmp")
    try:
        with refused(run_folder, hint=hint):
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            yield draft
            flush(draft)
            shutil.rmtree(target, ignore_errors=True)
            os.replace(draft, target)
            _flush_folder(target.parent)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def newest(run_folder: Path) -> Saved | None:
    """Return the newest complete checkpoint that can be resumed, None without any."""
    for step in sorted(_steps(run_folder), reverse=True):
        found = read(run_folder / FOLDER / f"checkpoint-{step}")
        if found is not None:
            return found
    return None


def read(folder: Path) -> Saved | None:
    """Return a checkpoint when it is whole: its state can be read and every file has the size that it noted."""
    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        whole = all((folder / n).stat().st_size == size for n, size in state["files"].items())
        return Saved(int(state["step"]), folder, state) if whole else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def damage(folder: Path) -> str:
    """Return what is not whole about the weights of a checkpoint, "" where each file has the size that was noted.

    The optimizer's state is not asked for: older checkpoints are without it.
    """
    try:
        sizes = dict(json.loads((folder / STATE).read_text(encoding="utf-8"))["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"{STATE} is not there, or cannot be read"
    for name, size in sizes.items():
        path = folder / name
        if name == OPTIMIZER:
            continue
        if not path.is_file():
            return f"{name} is not there"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size:,} of {size:,} bytes"
    return ""


def folders(run_folder: Path) -> list[tuple[int, Path]]:
    """Return (step, folder) of every checkpoint that holds weights, oldest first."""
    return [(s, run_folder / FOLDER / f"checkpoint-{s}") for s in sorted(_steps(run_folder))]


def load_weights(folder: Path, model: nn.Module) -> None:
    """Put the weights of a checkpoint into a model of the same shape. Raises InputError."""
    adapter = folder / "adapter_model.safetensors"
    try:
        if adapter.is_file():
            from peft import set_peft_model_state_dict

            set_peft_model_state_dict(cast("Any", model), load_file(adapter))
            return
        missing, unexpected = model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    except SafetensorError as error:
        raise InputError(Problem("weights that cannot be read", str(folder), str(error)[:200])) from error
    except (OSError, RuntimeError) as error:
        raise InputError(Problem("weights that do not fit this model", str(folder), str(error)[:200])) from error
    tied = set(getattr(model, "_tied_weights_keys", None) or ())
    lacking = [n for n in missing if n not in tied]
    if lacking or unexpected:
        raise InputError(Problem("weights of another model", str(folder), ", ".join([*lacking, *unexpected])[:200]))


def optimizer_state(saved: Saved) -> dict[str, Any]:
    """Return the optimizer's state, on the CPU; the file may hold tensors and numbers, nothing that runs.

    An optimizer moves what belongs beside its weights there by itself, and keeps its count of steps on the CPU.
    """
    state: dict[str, Any] = torch.load(saved.folder / OPTIMIZER, map_location="cpu", weights_only=True)
    return state


def load_reference(saved: Saved) -> dict[str, torch.Tensor]:
    """Return the reference's own weights; empty when it is the model of the start."""
    path = saved.folder / REFERENCE
    return load_file(path) if path.is_file() else {}


def load_random(saved: Saved) -> None:
    """Put the global generators back, for environments and models that draw from them."""
    state = saved.state["random"]
    torch.set_rng_state(torch.tensor(list(bytes.fromhex(state["torch"])), dtype=torch.uint8))
    kind, inner, gauss = state["python"]
    random.setstate((kind, tuple(inner), gauss))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))  # noqa: NPY002 (the global one, as others use it)
    if torch.cuda.is_available() and state["cuda"]:
        torch.cuda.set_rng_state_all([torch.tensor(list(bytes.fromhex(s)), dtype=torch.uint8) for s in state["cuda"]])


def _random_state() -> dict[str, Any]:
    name, keys, *rest = np.random.get_state()  # noqa: NPY002
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {
        "torch": bytes(torch.get_rng_state().tolist()).hex(),
        "cuda": [bytes(s.tolist()).hex() for s in cuda],
        "python": random.getstate(),
        "numpy": [name, cast("Any", keys).tolist(), *rest],
    }


def _steps(run_folder: Path) -> list[int]:
    top = run_folder / FOLDER
    if not top.is_dir():
        return []
    return [int(hit[1]) for entry in top.iterdir() if entry.is_dir() and (hit := _NAME.fullmatch(entry.name))]


def _thin(run_folder: Path) -> None:
    """Remove the optimizer's state of all but the newest checkpoints."""
    for step in sorted(_steps(run_folder))[:-RESUMABLE]:
        (run_folder / FOLDER / f"checkpoint-{step}" / OPTIMIZER).unlink(missing_ok=True)


def flush(folder: Path) -> None:
    """Return once the files of a folder and their names are on disk."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    _flush_folder(folder)


def _flush_folder(folder: Path) -> None:
    if os.name == "nt":  # folders cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
