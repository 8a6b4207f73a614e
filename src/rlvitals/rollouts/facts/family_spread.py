"""The spread of the rewards within each task family, per step."""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.fact import Apart, Fact, Series, Sums
from rlvitals.rollouts.facts.common import by_label, named, present, sd
from rlvitals.rollouts.table import Batch


def _fold(batch: Batch) -> Sums:
    reward, family = batch.number("reward"), batch.text("family")
    keep = np.isfinite(reward) & present(family)
    value = np.where(keep, reward, 0.0)
    return by_label(batch, keep, family, {"n": np.ones(batch.rows), "sum": value, "square": value * value})


def _finish(sums: Sums) -> Series:
    return named(
        sums,
        "rollouts/reward_family_std/",
        lambda s: sd(s.values["n"], s.values["sum"], s.values["square"], ddof=1),
    )


FACT = Fact(
    name="family-spread",
    reads=("family", "reward"),
    fold=_fold,
    finish=_finish,
    metrics=("rollouts/reward_family_std/*",),
    apart=Apart.NEVER,
)
