"""Reward against length within groups, at equal correctness: what a judge that measures length pays for.

Across prompts length and reward go together for many reasons (hard prompts need long answers and score low), so that
the pooled slope may even have the other sign. Deviations from the mean of a cell, the rollouts of one group that are
all right or all wrong, are free of both difficulty and correctness. Cut rollouts are left out.
"""

from __future__ import annotations

import numpy as np

from rlvitals.env import StopReason
from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import by_label, is_one, present, series, steps_of
from rlvitals.rollouts.table import MISSING, Batch
from rlvitals.schema import Float64

LEAST = 8  # deviations that are free to vary in a step (convention)
UNJUDGED = 2  # cell of rollouts whose correctness is not known
KILO = 1000.0  # tokens per unit of length


def _fold(batch: Batch) -> Sums:
    tokens, reward, correct = batch.integer("tokens"), batch.number("reward"), batch.number("correct")
    cut = is_one(batch.text("stop_reason"), StopReason.BUDGET)
    keep = (tokens != MISSING) & np.isfinite(reward) & present(batch.text("group")) & ~cut
    cell = np.where(np.isfinite(correct), (correct >= 1.0).astype(np.int64), UNJUDGED)
    x, y = np.where(keep, tokens, 0) / KILO, np.where(keep, reward, 0.0)
    values = {"n": np.ones(batch.rows), "x": x, "y": y, "xx": x * x, "yy": y * y, "xy": x * y}
    return by_label(batch, keep, batch.text("group"), values, more=(cell,))


def _finish(sums: Sums) -> Series:
    known = sums.keys[2] != UNJUDGED
    pooled = Sums.of(sums.keys[:2], dict(sums.values))
    out = {}
    if known.any():
        judged = Sums(tuple(k[known] for k in sums.keys), {n: v[known] for n, v in sums.values.items()}, {})
        corr, slope = _within(judged)
        out["rollouts/length_corr_equal"], out["rollouts/length_slope_equal"] = corr, slope
    out["rollouts/length_corr_group"], _ = _within(pooled)
    return {name: line for name, line in out.items() if line[0].size}


def _within(cells: Sums) -> tuple[tuple[np.ndarray, Float64], tuple[np.ndarray, Float64]]:
    """Return per step (correlation, slope in reward per 1,000 tokens) of the deviations from the means of the cells."""
    v = cells.values
    n = v["n"]
    parts = {
        "free": n - 1,
        "xx": np.maximum(v["xx"] - v["x"] ** 2 / n, 0.0),
        "yy": np.maximum(v["yy"] - v["y"] ** 2 / n, 0.0),
        "xy": v["xy"] - v["x"] * v["y"] / n,
        "q": v["yy"],
        "r": v["xx"],
    }
    per = Sums.of((steps_of(cells),), parts)
    s, steps = per.values, steps_of(per)
    varies = (s["free"] >= LEAST) & (s["xx"] > 1e-9 * s["r"]) & (s["xx"] > 0)
    rewarded = varies & (s["yy"] > 1e-9 * s["q"])
    with np.errstate(invalid="ignore", divide="ignore"):
        corr = np.where(rewarded, s["xy"] / np.sqrt(s["xx"] * s["yy"]), np.where(varies, 0.0, np.nan))
        slope = np.where(rewarded, s["xy"] / s["xx"], np.where(varies, 0.0, np.nan))
    return series(steps, corr), series(steps, slope)


FACT = Fact(
    name="length-coupling",
    reads=("group", "reward", "tokens"),
    fold=_fold,
    finish=_finish,
    metrics=("rollouts/length_corr_equal", "rollouts/length_slope_equal", "rollouts/length_corr_group"),
    also=("correct", "stop_reason"),
)
