"""Reward against the order of the rollouts within their group: resets that leak state, or grow harder.

Rollouts of one prompt are exchangeable, so that their number says nothing of their reward. Dumps in order of finishing
or of score are no such thing: there the number follows the length, or the reward exactly.
"""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import by_label, present, series, steps_of
from rlvitals.rollouts.table import MISSING, Batch
from rlvitals.schema import Float64

LEAST = 8  # deviations that are free to vary in a step (convention)


def _fold(batch: Batch) -> Sums:
    index, reward, tokens = batch.integer("index"), batch.number("reward"), batch.integer("tokens")
    keep = (index != MISSING) & np.isfinite(reward) & present(batch.text("group"))
    x, y = np.where(keep, index, 0).astype(float), np.where(keep, reward, 0.0)
    sized = tokens != MISSING
    t = np.where(keep & sized, tokens, 0).astype(float)
    values = {
        "n": np.ones(batch.rows), "x": x, "y": y, "xx": x * x, "yy": y * y, "xy": x * y,
        "sized": sized.astype(float), "t": t, "tt": t * t, "xt": x * t,
    }  # fmt: skip
    return by_label(batch, keep, batch.text("group"), values)


def _finish(sums: Sums) -> Series:
    v = sums.values
    n, all_sized = v["n"], v["sized"] == v["n"]
    per = Sums.of(
        (steps_of(sums),),
        {
            "free": n - 1,
            "xx": _dev(v["xx"], v["x"], v["x"], n),
            "yy": _dev(v["yy"], v["y"], v["y"], n),
            "xy": _dev(v["xy"], v["x"], v["y"], n),
            "tt": np.where(all_sized, _dev(v["tt"], v["t"], v["t"], n), 0.0),
            "xt": np.where(all_sized, _dev(v["xt"], v["x"], v["t"], n), 0.0),
        },
    )
    out = {
        "rollouts/index_reward_corr": series(steps_of(per), _corr(per, "yy", "xy")),
        "rollouts/index_length_corr": series(steps_of(per), _corr(per, "tt", "xt")),
    }
    return {name: line for name, line in out.items() if line[0].size}


def _dev(product: Float64, a: Float64, b: Float64, n: Float64) -> Float64:
    return product - a * b / n


def _corr(per: Sums, own: str, both: str) -> Float64:
    s = per.values
    able = (s["free"] >= LEAST) & (s["xx"] > 0) & (s[own] > 1e-9)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(able, s[both] / np.sqrt(s["xx"] * s[own]), np.nan)


FACT = Fact(
    name="index-order",
    reads=("group", "index", "reward"),
    fold=_fold,
    finish=_finish,
    metrics=("rollouts/index_reward_corr", "rollouts/index_length_corr"),
    also=("tokens",),
)
