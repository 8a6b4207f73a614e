"""Experiment trackers through accelerate: TensorBoard, W&B, MLflow, trackio. They get what metrics.jsonl gets.

A tracker looks on: what goes wrong in one ends the tracking, never the training, and a run that broke off is told as
such where the tracker knows the difference. Files of its own stand where its own settings say (WANDB_DIR,
MLFLOW_TRACKING_URI, TRACKIO_DIR); those of TensorBoard in the run directory.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rlvitals.errors import InputError, Problem
from rlvitals.grpo.evaluate import HeldOut
from rlvitals.grpo.logs import METRICS
from rlvitals.grpo.run import Run

TRACKERS = ("tensorboard", "wandb", "mlflow", "trackio")
PROJECT = "rlvitals"  # what the trackers call project or experiment
_PACKAGE = {"mlflow": "mlflow-skinny sqlalchemy alembic"}
_MLFLOW_LENGTH = 250  # longest name of a metric (definition: mlflow.utils.validation)


class Tracker:
    """One tracker; nothing is written before `start`.

    Raises InputError for a tracker whose package is not there.
    """

    def __init__(self, name: str, folder: str) -> None:
        if name not in TRACKERS:
            raise InputError(Problem("unknown tracker", "--tracker", repr(name), ", ".join(TRACKERS)))
        self._name, self._folder = name, folder
        self._accelerator: Any = None
        self._begun = False
        self._named: dict[str, str] = {}
        try:
            from accelerate.tracking import get_available_trackers

            # asked here: accelerate itself drops a tracker that is not there without a word
            if name not in {getattr(known, "value", known) for known in get_available_trackers()}:
                raise ImportError("its package is not there")
        except ImportError as error:
            raise self._unusable(error) from error

    def start(self, run: Run) -> None:
        """Open the tracker's own run, in the process that writes. Raises InputError."""
        if not run.parallel.main:
            return
        own = {"wandb": "name", "mlflow": "run_name", "trackio": "name"}.get(self._name)
        named = {} if own is None else {self._name: {own: run.folder.name}}
        try:
            from accelerate import Accelerator

            # after the run was opened: the first one decides on which device a process computes
            self._accelerator = Accelerator(log_with=self._name, project_dir=self._folder)
            self._accelerator.init_trackers(PROJECT, config=asdict(run.config), init_kwargs=named)
        except Exception as error:  # a store that cannot be reached, a login that lacks: each has its own class
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> InputError:
        missing = isinstance(error, ImportError)
        hint = f"Install it: pip install {_PACKAGE.get(self._name, self._name)}" if missing else "Leave --tracker out"
        expected = "its package installed" if missing else "a tracker that opens a run"
        return InputError(
            Problem("this tracker cannot be used", "--tracker", f"{self._name}: {error}"[:200], expected, hint)
        )

    def __call__(self, run: Run, row: Mapping[str, float], held_out: HeldOut | None) -> None:
        """Log a step, and before the first one what stands in metrics.jsonl already."""
        if self._accelerator is None:
            return
        try:
            if not self._begun:
                self._begun = True
                for step, before in _earlier(run):
                    self._accelerator.log(self._names(before), step=step)
            self._accelerator.log(self._names(row), step=run.step)
        except Exception as error:
            self._gave_up(run, error)

    def _gave_up(self, run: Run, error: Exception) -> None:
        """Say once that the tracker failed, and go on without it."""
        text = f"{self._name} failed and gets nothing more: {type(error).__name__}: {error}"[:300]
        print(f"step {run.step} · {text}. {METRICS} stays whole.", file=sys.stderr)
        if run.log is not None:
            run.log.event(run.step, "tracker", text)
        self.close(failed=True)

    def _names(self, row: Mapping[str, float]) -> Mapping[str, float]:
        """Return the row under names that the tracker takes: MLflow refuses a whole row for one odd name."""
        if self._name != "mlflow":
            return row
        for name in row:
            if name not in self._named:
                self._named[name] = _free(_mlflow_name(name), set(self._named.values()))
        return {self._named[name]: value for name, value in row.items()}

    def close(self, *, failed: bool = False) -> None:
        """Close the tracker's run as finished or as failed; what is wrong with that is told and not raised."""
        if self._accelerator is None:
            return
        trackers, self._accelerator = self._accelerator.trackers, None
        try:
            for tracker in trackers:
                if failed:
                    _fail(self._name, tracker)
                tracker.finish()
        except Exception as error:
            print(f"{self._name} could not be closed: {type(error).__name__}: {error}"[:300], file=sys.stderr)


def _earlier(run: Run) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the rows before this step: the first evaluation, and of a resumed run all that came before.

    A resumed run is a new one in the tracker; so it is whole.
    """
    with (run.folder / METRICS).open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            step = row.pop("step")
            if step < run.step:
                yield step, row


def _mlflow_name(name: str) -> str:
    """Return a name that MLflow takes: letters, digits, `_`, `-`, `.`, space and `/`, no empty and no dotted part."""
    parts = [re.sub(r"[^\w.\- ]", "_", part) for part in name.split("/")]
    return "/".join(p if p.strip(".") else f"_{p}" for p in parts)[:_MLFLOW_LENGTH].rstrip("/.")


def _free(name: str, taken: set[str]) -> str:
    """Return the name with a number behind it where another metric has it already."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name[: _MLFLOW_LENGTH - 8]}-{number}"
    return found


def _fail(name: str, tracker: Any) -> None:
    """Mark the tracker's run as failed; TensorBoard and trackio know no such mark."""
    if name == "mlflow":
        import mlflow

        mlflow.end_run("FAILED")
    elif name == "wandb":
        tracker.tracker.finish(exit_code=1)


@contextmanager
def closing(watches: Sequence[object]) -> Iterator[None]:
    """Close the trackers among what looks on, as failed when the block raised."""
    trackers = [each for each in watches if isinstance(each, Tracker)]
    try:
        yield
    except BaseException:
        for each in trackers:
            each.close(failed=True)
        raise
    for each in trackers:
        each.close()
