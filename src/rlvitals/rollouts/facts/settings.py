"""Sampler settings that the rollouts carry, per step: smallest and largest of each."""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import series, steps_of
from rlvitals.rollouts.table import MISSING, Batch
from rlvitals.schema import Float64

NAMES = ("temperature", "top_p", "token_budget")


def _fold(batch: Batch) -> Sums:
    budget = batch.integer("token_budget")
    columns = {
        "temperature": batch.number("temperature"),
        "top_p": batch.number("top_p"),
        "token_budget": np.where(budget == MISSING, np.nan, budget.astype(float)),
    }
    values: dict[str, Float64] = {}
    how: dict[str, str] = {}
    for name, column in columns.items():
        there = np.isfinite(column)
        values[f"{name}_min"] = np.where(there, column, np.inf)
        values[f"{name}_max"] = np.where(there, column, -np.inf)
        how |= {f"{name}_min": "min", f"{name}_max": "max"}
    return Sums.of((batch.integer("step"),), values, how)


def _finish(sums: Sums) -> Series:
    found = {f"rollouts/{name}": series(steps_of(sums), values) for name, values in sums.values.items()}
    return {name: line for name, line in found.items() if line[0].size}


FACT = Fact(
    name="settings",
    reads=(),
    fold=_fold,
    finish=_finish,
    metrics=tuple(f"rollouts/{name}_{end}" for name in NAMES for end in ("min", "max")),
    also=NAMES,
)
