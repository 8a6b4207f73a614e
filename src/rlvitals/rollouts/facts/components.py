"""Reward components per step, and what each earns in right and in wrong rollouts."""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import MAX_NAMES, clean, ratio, sd, series, steps_of
from rlvitals.rollouts.table import PART, Batch
from rlvitals.schema import Float64


def _fold(batch: Batch) -> Sums:
    correct = batch.number("correct")
    values: dict[str, Float64] = {}
    for part in batch.parts()[:MAX_NAMES]:
        paid = batch.number(PART + part)
        there = np.isfinite(paid)
        value = np.where(there, paid, 0.0)
        values |= {
            f"n {part}": there.astype(float),
            f"s {part}": value,
            f"q {part}": value * value,
            f"w {part}": (there & (correct == 0.0)).astype(float),
            f"v {part}": np.where(correct == 0.0, value, 0.0),
        }
    return Sums.of((batch.integer("step"),), values)


def _finish(sums: Sums) -> Series:
    out = {}
    for part in [name[2:] for name in sums.values if name.startswith("n ")]:
        v, name = sums.values, clean(part)
        out[f"rollouts/reward_part/{name}"] = ratio(sums, f"s {part}", f"n {part}")
        spread = sd(v[f"n {part}"], v[f"s {part}"], v[f"q {part}"], ddof=1)
        out[f"rollouts/reward_part_std/{name}"] = series(steps_of(sums), spread)
        out[f"rollouts/part_wrong_mean/{name}"] = ratio(sums, f"v {part}", f"w {part}", least=4)
    return {name: line for name, line in out.items() if line[0].size}


FACT = Fact(
    name="components",
    reads=(),
    fold=_fold,
    finish=_finish,
    metrics=("rollouts/reward_part/*", "rollouts/reward_part_std/*", "rollouts/part_wrong_mean/*"),
    also=(PART + "*", "correct"),
)
