"""Success, share and tied groups per difficulty tier and step."""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.fact import Apart, Fact, Series, Sums
from rlvitals.rollouts.facts.common import again, by_label, named, present
from rlvitals.rollouts.table import Batch


def _fold(batch: Batch) -> Sums:
    correct, reward, tier = batch.number("correct"), batch.number("reward"), batch.text("tier")
    judged, there = np.isfinite(correct), np.isfinite(reward)
    values = {
        "n": np.ones(batch.rows),
        "judged": judged.astype(float),
        "right": np.where(judged, correct, 0.0),
        "rewarded": there.astype(float),
        "sum": np.where(there, reward, 0.0),
        "least": np.where(there, reward, np.inf),
        "most": np.where(there, reward, -np.inf),
    }
    group = np.where(present(batch.text("group")), batch.text("group"), "")
    return by_label(batch, present(tier), tier, values, {"least": "min", "most": "max"}, more=(group,))


def _finish(sums: Sums) -> Series:
    v = sums.values
    several = (v["rewarded"] > 1) & (sums.keys[2] != "")
    per = Sums.of(
        sums.keys[:2],
        {
            "n": v["n"],
            "judged": v["judged"],
            "right": v["right"],
            "rewarded": v["rewarded"],
            "sum": v["sum"],
            "groups": several.astype(float),
            "tied": (several & (v["least"] == v["most"])).astype(float),
        },
    )
    whole = again(per, {"n": per.values["n"]})
    at = np.searchsorted(whole.keys[0], per.keys[0])

    def share(top: str, bottom: str) -> Series:
        def value(s: Sums) -> np.ndarray:
            with np.errstate(invalid="ignore", divide="ignore"):
                return np.where(s.values[bottom] > 0, s.values[top] / s.values[bottom], np.nan)

        return named(per, f"rollouts/{_NAMES[top]}/", value)

    return {
        **share("right", "judged"),
        **share("sum", "rewarded"),
        **share("tied", "groups"),
        **named(per, "rollouts/tier_share/", lambda s: s.values["n"] / whole.values["n"][at]),
    }


_NAMES = {"right": "success_tier", "sum": "reward_tier", "tied": "zero_variance_tier"}

FACT = Fact(
    name="tiers",
    reads=("tier",),
    fold=_fold,
    finish=_finish,
    metrics=(
        "rollouts/success_tier/*",
        "rollouts/reward_tier/*",
        "rollouts/zero_variance_tier/*",
        "rollouts/tier_share/*",
    ),
    also=("correct", "reward", "group"),
    apart=Apart.FEW_LABELS,
)
