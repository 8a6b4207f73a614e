"""The files of a run directory that grow: one row per step in three formats, evaluations by item, events.

Every row is written whole and handed to the operating system at once; a checkpoint notes how long each file was, and a
resume cuts it there, so that no step is missing and none is there twice.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from rlvitals.errors import InputError, Problem

METRICS, CSV, TEXT, EVALS, EVENTS = "metrics.jsonl", "metrics.csv", "train.log", "evals.jsonl", "events.jsonl"
FILES = (METRICS, CSV, TEXT, EVALS, EVENTS)

# Column of metrics.csv -> canonical metric: the header of chapter 7's own CSV files.
_COLUMNS: Mapping[str, str] = {
    "loss": "loss",
    "kl_loss": "kl_loss",
    "policy_ratio": "ratio_mean",
    "reward_avg": "reward_mean",
    "format_reward_avg": "reward_part/format",
    "tokens_per_sec": "tokens_per_second",
    "avg_response_len": "length_mean",
    "adv_avg": "advantage_mean",
    "adv_std": "advantage_std",
    "entropy_avg": "entropy",
}


class RunLog:
    """The growing files of one run.

    Args:
        folder: the run directory, made where it is not there.
        steps: planned steps, for the text log.
        offsets: bytes to keep of each file, None to start anew.

    Raises InputError when the disk refuses.
    """

    def __init__(self, folder: Path, steps: int, offsets: Mapping[str, int] | None = None) -> None:
        self.folder, self.steps = folder, steps
        self._files: dict[str, IO[bytes]] = {}
        with refused(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for name in FILES:
                path = folder / name
                path.touch()
                with path.open("r+b") as file:
                    file.truncate(0 if offsets is None else min(offsets.get(name, 0), path.stat().st_size))
                self._files[name] = path.open("ab")
        if offsets is None:
            self._put(CSV, ",".join(["step", "total_steps", *_COLUMNS, "eval_acc"]))

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def step(self, step: int, row: Mapping[str, float], held_out: float | None = None) -> None:
        """Write the row of a step; `held_out` is the accuracy measured after it, if it was."""
        self._put(METRICS, json.dumps({"step": step, **row}))
        cells = [_cell(row.get(metric)) for metric in _COLUMNS.values()]
        self._put(CSV, ",".join([str(step), str(self.steps), *cells, _cell(held_out)]))
        shown = " ".join(f"{n}={row[m]:.4f}" for n, m in _COLUMNS.items() if m in row)
        self._put(TEXT, f"[Step {step}/{self.steps}] {shown}")

    def held_out(self, step: int, row: Mapping[str, float]) -> None:
        """Write held-out scores that belong to no step: those before the first."""
        self._put(METRICS, json.dumps({"step": step, **row}))

    def evaluation(self, step: int, name: str, rows: Sequence[Mapping[str, Any]], accuracy: float) -> None:
        """Write an evaluation, one line per item."""
        for row in rows:
            self._put(EVALS, json.dumps({"step": step, "set": name, **row}))
        right = sum(1 for row in rows if row.get("correct") == 1.0)
        self._put(TEXT, f"[Eval step {step}] {name}_acc={accuracy:.4f} ({right}/{len(rows)})")

    def event(self, step: int, kind: str, detail: str = "", **more: object) -> None:
        """Write that something happened after a step."""
        self._put(EVENTS, json.dumps({"step": step, "kind": kind, "detail": detail, "time": time.time(), **more}))

    def offsets(self) -> dict[str, int]:
        """Return how long each file is, once its bytes are on disk."""
        with refused(self.folder):
            for file in self._files.values():
                os.fsync(file.fileno())
        return {name: file.tell() for name, file in self._files.items()}

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _put(self, name: str, line: str) -> None:
        with refused(self.folder):
            self._files[name].write(line.encode() + b"\n")
            self._files[name].flush()


class refused:  # noqa: N801 (reads as a statement: with refused(folder))
    """Turn an OSError of writing into an InputError that says how to go on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, OSError):
            raise InputError(
                Problem("the run directory cannot be written, so the run stopped", str(self._folder),
                        error.strerror or str(error), "free space and permission",
                        f"Then go on from the newest checkpoint: rlvitals train --resume --out {self._folder}")
            ) from error  # fmt: skip


def _cell(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.6g}"


def write_json(path: Path, value: object) -> None:
    """Write a whole JSON file: it is there completely or not at all. Raises InputError."""
    draft = path.with_name(path.name + ".tmp")
    with refused(path.parent):
        draft.write_text(json.dumps(value, indent=1, sort_keys=False) + "\n", encoding="utf-8")
        os.replace(draft, path)
