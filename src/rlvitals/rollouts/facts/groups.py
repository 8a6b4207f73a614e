"""Groups per step: sizes, and the share in which every reward is the same, split by all wrong and all right."""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import known
from rlvitals.rollouts.table import Batch


def grouped(batch: Batch) -> Batch:
    """Return the rollouts that belong to a known group and have a reward."""
    there = known(batch.text("group"))
    keep = there & np.isfinite(batch.number("reward"))
    return batch if keep.all() else batch.take(np.flatnonzero(keep))


def _fold(batch: Batch) -> Sums:
    batch = grouped(batch)
    reward = batch.number("reward")
    judged = batch.number("correct")
    values = {
        "rollouts": np.ones(batch.rows),
        "least": reward,
        "most": reward,
        "right_least": np.where(np.isfinite(judged), judged, np.inf),
        "right_most": np.where(np.isfinite(judged), judged, -np.inf),
    }
    how = {"least": "min", "most": "max", "right_least": "min", "right_most": "max"}
    return Sums.of((batch.integer("step"), batch.text("group")), values, how)


def _finish(sums: Sums) -> Series:
    """Reduce groups to steps. Where nobody judged, a group tied at 0 or less is all wrong, at 1 or more all right."""
    v = sums.values
    size, tied = v["rollouts"], (v["least"] == v["most"]) & (v["rollouts"] > 1)
    judged = np.isfinite(v["right_least"])
    wrong = np.where(judged, v["right_most"] <= 0.0, v["most"] <= 0.0) & tied
    right = np.where(judged, v["right_least"] >= 1.0, v["least"] >= 1.0) & tied
    per_step = Sums.of(
        (sums.keys[0],),
        {
            "groups": np.ones(sums.rows),
            "several": (size > 1).astype(float),
            "tied": tied.astype(float),
            "wrong": wrong.astype(float),
            "right": right.astype(float),
            "rollouts": size,
            "least": size,
            "most": size,
        },
        {"least": "min", "most": "max"},
    )
    steps, s = np.asarray(per_step.keys[0], dtype=np.int64), per_step.values
    several = np.where(s["several"] > 0, s["several"], np.nan)  # a prompt that stands once shows no group
    found = {
        "rollouts/groups": s["groups"],
        "rollouts/group_size_mean": s["rollouts"] / s["groups"],
        "rollouts/group_size_min": s["least"],
        "rollouts/group_size_max": s["most"],
        "rollouts/zero_variance_frac": s["tied"] / several,
        "rollouts/all_wrong_frac": s["wrong"] / several,
        "rollouts/all_right_frac": s["right"] / several,
    }
    return {name: (steps, line) for name, line in found.items()}


FACT = Fact(
    name="groups",
    reads=("group", "reward"),
    fold=_fold,
    finish=_finish,
    metrics=(
        "rollouts/groups",
        "rollouts/group_size_mean",
        "rollouts/group_size_min",
        "rollouts/group_size_max",
        "rollouts/zero_variance_frac",
        "rollouts/all_wrong_frac",
        "rollouts/all_right_frac",
    ),
)
