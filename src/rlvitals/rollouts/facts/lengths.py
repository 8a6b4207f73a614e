"""Completion lengths and turns per step, and the lengths of right and wrong answers apart."""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import ratio, sd, series, steps_of
from rlvitals.rollouts.table import MISSING, Batch


def _fold(batch: Batch) -> Sums:
    tokens, turns, right = batch.integer("tokens"), batch.integer("turns"), batch.number("correct")
    there, counted = tokens != MISSING, batch.integer("turns") != MISSING
    length = np.where(there, tokens, 0).astype(float)
    values = {
        "n": there.astype(float),
        "sum": length,
        "square": length * length,
        "least": np.where(there, length, np.inf),
        "most": np.where(there, length, -np.inf),
        "turns": np.where(counted, turns, 0).astype(float),
        "turned": counted.astype(float),
        "right": ((right == 1.0) & there).astype(float),
        "right_sum": np.where(right == 1.0, length, 0.0),
        "wrong": ((right == 0.0) & there).astype(float),
        "wrong_sum": np.where(right == 0.0, length, 0.0),
    }
    return Sums.of((batch.integer("step"),), values, {"least": "min", "most": "max"})


def _finish(sums: Sums) -> Series:
    v, steps = sums.values, steps_of(sums)
    return {
        "rollouts/length_mean": ratio(sums, "sum", "n"),
        "rollouts/length_std": series(steps, sd(v["n"], v["sum"], v["square"], ddof=1)),
        "rollouts/length_min": series(steps, v["least"]),
        "rollouts/length_max": series(steps, v["most"]),
        "rollouts/length_right_mean": ratio(sums, "right_sum", "right"),
        "rollouts/length_wrong_mean": ratio(sums, "wrong_sum", "wrong"),
        "rollouts/turns_mean": ratio(sums, "turns", "turned"),
    }


FACT = Fact(
    name="lengths",
    reads=("tokens",),
    fold=_fold,
    finish=_finish,
    metrics=(
        "rollouts/length_mean",
        "rollouts/length_std",
        "rollouts/length_min",
        "rollouts/length_max",
        "rollouts/length_right_mean",
        "rollouts/length_wrong_mean",
        "rollouts/turns_mean",
    ),
    also=("turns", "correct"),
)
