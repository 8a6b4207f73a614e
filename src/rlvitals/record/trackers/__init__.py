"""The run's own tracking record: where else an entry is written, one file per tracker."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rlvitals.errors import InputError, Problem
from rlvitals.record.entry import Entry
from rlvitals.record.trackers import mlflow, trackio, wandb

TRACKERS: Mapping[str, Callable[[str, Entry], None]] = {
    "mlflow": mlflow.write,
    "wandb": wandb.write,
    "trackio": trackio.write,
}


def write(place: str, entry: Entry) -> None:
    """Write an entry to `TRACKER:RUN`. Raises InputError for an unknown tracker or run, or a missing package."""
    name, sign, run = place.partition(":")
    if not sign or not run or name not in TRACKERS:
        expected = "mlflow:RUN_ID, wandb:PROJECT/RUN_ID or trackio:PROJECT/NAME"
        raise InputError(Problem("not a tracked run", "--also", repr(place), expected))
    TRACKERS[name](run, entry)
