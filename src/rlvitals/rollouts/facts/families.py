"""Rewards per task family and step, and the share of tied groups per family."""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.fact import Apart, Fact, Series, Sums
from rlvitals.rollouts.facts.common import known
from rlvitals.rollouts.facts.groups import grouped
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Float64, Int64

MAX_FAMILIES = 64  # distinct families that get a series of their own; the largest are kept


def _fold(batch: Batch) -> Sums:
    there = known(batch.text("family"))
    batch = grouped(batch.take(np.flatnonzero(there)) if not there.all() else batch)
    reward = batch.number("reward")
    keys = (batch.integer("step"), batch.text("family"), batch.text("group"))
    values = {"rollouts": np.ones(batch.rows), "sum": reward, "least": reward, "most": reward}
    return Sums.of(keys, values, {"least": "min", "most": "max"})


def _finish(sums: Sums) -> Series:
    v = sums.values
    several = v["rollouts"] > 1
    tied = several & (v["least"] == v["most"])
    per = Sums.of(
        sums.keys[:2],
        {
            "rollouts": v["rollouts"],
            "sum": v["sum"],
            "groups": several.astype(float),
            "tied": tied.astype(float),
        },
    )
    out: dict[str, tuple[Int64, Float64]] = {}
    for family in largest(per):
        at = np.flatnonzero(per.keys[1] == family)
        steps = np.asarray(per.keys[0][at], dtype=np.int64)
        s = {name: column[at] for name, column in per.values.items()}
        name = family[:80]
        out[f"rollouts/reward_family/{name}"] = (steps, s["sum"] / s["rollouts"])
        out[f"rollouts/family_count/{name}"] = (steps, s["rollouts"])
        tied_share = s["tied"] / np.where(s["groups"] > 0, s["groups"], np.nan)
        out[f"rollouts/zero_variance_family/{name}"] = (steps, tied_share)
    return out


def largest(per: Sums, key: int = 1) -> list[str]:
    """Return the labels with most rollouts, at most MAX_FAMILIES, in order of their names."""
    totals: dict[str, float] = {}
    for label, count in zip(per.keys[key], per.values["rollouts"], strict=True):
        totals[str(label)] = totals.get(str(label), 0.0) + float(count)
    return sorted(sorted(totals, key=lambda f: (-totals[f], f))[:MAX_FAMILIES])


FACT = Fact(
    name="families",
    reads=("family", "group", "reward"),
    fold=_fold,
    finish=_finish,
    metrics=("rollouts/reward_family/*", "rollouts/family_count/*", "rollouts/zero_variance_family/*"),
    apart=Apart.FEW_LABELS,
)
