"""Policy versions per step: how old the rollouts are, and whether the version advances."""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import by_step, pick, ratio, series, steps_of
from rlvitals.rollouts.table import MISSING, Batch
from rlvitals.schema import Example, Float64


def _lag(batch: Batch) -> Float64:
    """Return float64[rows]: versions between sampling and training, NaN where either is unknown."""
    sampled, trained = batch.integer("policy_version"), batch.integer("trainer_version")
    both = (sampled != MISSING) & (trained != MISSING)
    return np.where(both, np.where(both, trained, 0) - np.where(both, sampled, 0), np.nan).astype(float)


def _fold(batch: Batch) -> Sums:
    version, lag = batch.integer("policy_version"), _lag(batch)
    there, aged = version != MISSING, np.isfinite(lag)
    number = np.where(there, version, 0).astype(float)
    values = {
        "oldest": number,
        "newest": number,
        "aged": aged.astype(float),
        "lag": np.where(aged, lag, 0.0),
        "longest": np.where(aged, lag, -np.inf),
    }
    return by_step(batch, there, values, {"oldest": "min", "newest": "max", "longest": "max"})


def _finish(sums: Sums) -> Series:
    steps = steps_of(sums)
    longest = np.where(np.isfinite(sums.values["longest"]), sums.values["longest"], np.nan)
    return {
        "rollouts/policy_version_min": (steps, sums.values["oldest"]),
        "rollouts/policy_version_max": (steps, sums.values["newest"]),
        "rollouts/version_lag_mean": ratio(sums, "lag", "aged"),
        "rollouts/version_lag_max": series(steps, longest),
    }


def _examples(batch: Batch, sums: Sums) -> tuple[Example, ...]:
    lag = _lag(batch)
    return pick(batch, lag > 0, "versions", rank=lag)


FACT = Fact(
    name="versions",
    reads=("policy_version",),
    fold=_fold,
    finish=_finish,
    metrics=(
        "rollouts/policy_version_min",
        "rollouts/policy_version_max",
        "rollouts/version_lag_mean",
        "rollouts/version_lag_max",
    ),
    examples=_examples,
    also=("trainer_version",),
)
