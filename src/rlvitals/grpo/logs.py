"""The files of a run directory that grow: one row per step in three formats, evaluations by item, events.

Every row is written whole and handed to the operating system at once; a checkpoint notes how long each file was, and a
resume cuts it there, so that no step is missing and none is there twice.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import duckdb
from safetensors import SafetensorError

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
        made(folder)
        with refused(folder):
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
        self.close() if error is None else self.abandon()

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
        """Close the files. Raises InputError when the disk refuses."""
        with refused(self.folder):
            for file in self._files.values():
                file.close()

    def abandon(self) -> None:
        """Close the files on the way out of an error: nothing is raised, and half a last line goes."""
        for name, file in self._files.items():
            abandon(file, self.folder / name)

    def _put(self, name: str, line: str) -> None:
        with refused(self.folder):
            self._files[name].write(line.encode() + b"\n")
            self._files[name].flush()


def made(folder: Path) -> None:
    """Make a run directory where it is not there, and see that it can be written. Raises InputError."""
    probe = folder / ".writable"
    with refused(folder, "the run directory cannot be written", "Then start again, or name another place: --out DIR"):
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()


class refused:  # noqa: N801 (reads as a statement: with refused(folder))
    """Turn what the disk refuses, in whatever words a library says it, into an InputError that says how to go on.

    Args:
        folder: the run directory.
        what: what could not be done; hint: what to do then, without one how the run goes on.
    """

    def __init__(
        self, folder: Path, what: str = "the run directory cannot be written, so the run stopped", hint: str = ""
    ) -> None:
        self._folder, self._what, self._hint = folder, what, hint

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        said = _said_of_the_disk(error)
        if said:
            hint = self._hint or f"Then go on from the newest checkpoint: rlvitals train --resume --out {self._folder}"
            found = said + _free(error, self._folder)
            raise InputError(
                Problem(self._what, str(self._folder), found, "free space and permission", hint)
            ) from error


_DISK = tuple(os.strerror(n) for n in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES))
_TORCH = ("inline_container", "PytorchStreamWriter")  # the writer of torch.save says neither file nor reason


def _said_of_the_disk(error: BaseException | None) -> str:
    """Return what an error of writing says, "" for one that is none."""
    if isinstance(error, InputError):
        return ""
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    text = str(error)
    if isinstance(error, RuntimeError) and any(word in text for word in _TORCH):
        return "a file was not taken whole"
    if isinstance(error, SafetensorError | duckdb.Error):
        return text[:200]
    # tokenizers raises a plain Exception
    return next((said for said in _DISK if isinstance(error, Exception) and said in text), "")


def _free(error: BaseException | None, folder: Path) -> str:
    """Return how much space there is, for the end of a sentence; "" where it is not the reason, or cannot be told."""
    if isinstance(error, OSError) and error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return ""
    at = next((p for p in (folder, *folder.parents) if p.is_dir()), None)
    try:
        return "" if at is None else f", {shutil.disk_usage(at).free:,} bytes free"
    except OSError:
        return ""


def abandon(file: IO[bytes], path: Path) -> None:
    """Close a file of lines on the way out of an error, and cut it behind its last whole line; nothing is raised."""
    with contextlib.suppress(OSError, ValueError):
        file.close()
    with contextlib.suppress(OSError):
        end = size = path.stat().st_size
        with path.open("r+b") as again:
            while end > 0:
                start = max(0, end - 65_536)
                again.seek(start)
                at = again.read(end - start).rfind(b"\n")
                if at >= 0:
                    end = start + at + 1
                    break
                end = start
            if end < size:
                again.truncate(end)


def _cell(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.6g}"


def write_json(path: Path, value: object) -> None:
    """Write a whole JSON file: it is there completely or not at all. Raises InputError."""
    with refused(path.parent), whole(path) as draft:
        draft.write_text(json.dumps(value, indent=1, sort_keys=False) + "\n", encoding="utf-8")


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a name to write a file under; it takes its own when it is whole, and no draft stays after an error."""
    draft = path.with_name(path.name + ".tmp")
    try:
        yield draft
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
