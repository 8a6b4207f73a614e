"""Rollouts, rewards and success per step."""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Float64


def _fold(batch: Batch) -> Sums:
    reward, correct = batch.number("reward"), batch.number("correct")
    there, judged = np.isfinite(reward), np.isfinite(correct)
    value = np.where(there, reward, 0.0)
    values = {
        "rollouts": np.ones(batch.rows),
        "rewarded": there.astype(float),
        "sum": value,
        "square": value * value,
        "least": np.where(there, reward, np.inf),
        "most": np.where(there, reward, -np.inf),
        "judged": judged.astype(float),
        "right": np.where(judged, correct, 0.0),
    }
    return Sums.of((batch.integer("step"),), values, {"least": "min", "most": "max"})


def _finish(sums: Sums) -> Series:
    steps, v = np.asarray(sums.keys[0], dtype=np.int64), sums.values
    n = v["rewarded"]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = v["sum"] / n
        spread = np.where(n > 1, np.sqrt(np.maximum(v["square"] - n * mean * mean, 0.0) / (n - 1)), np.nan)
        right = np.where(v["judged"] > 0, v["right"] / v["judged"], np.nan)
    found: dict[str, Float64] = {
        "rollouts/count": v["rollouts"],
        "rollouts/reward_mean": np.where(n > 0, mean, np.nan),
        "rollouts/reward_std": np.where(v["least"] == v["most"], 0.0, spread) * np.where(n > 1, 1.0, np.nan),
        "rollouts/reward_min": np.where(n > 0, v["least"], np.nan),
        "rollouts/reward_max": np.where(n > 0, v["most"], np.nan),
        "rollouts/reward_missing_frac": 1.0 - n / v["rollouts"],
        "rollouts/success_frac": right,
    }
    return {name: (steps, line) for name, line in found.items()}


FACT = Fact(
    name="rewards",
    reads=("reward",),
    fold=_fold,
    finish=_finish,
    metrics=(
        "rollouts/count",
        "rollouts/reward_mean",
        "rollouts/reward_std",
        "rollouts/reward_min",
        "rollouts/reward_max",
        "rollouts/reward_missing_frac",
        "rollouts/success_frac",
    ),
)
