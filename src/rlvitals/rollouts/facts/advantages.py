"""Advantages recomputed from the rewards of each group, and what the logged ones turn out to be.

Within a group every usual advantage is a straight line in the reward: its slope tells the scaling, its mean the
baseline. Where it is no line, rewards and advantages belong to different rollouts. All of it follows from sums.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import by_label, present, sd, series, steps_of
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Float64

SLOPE_SLACK = 5e-3  # relative: printing, and epsilons of 1e-4 added to a standard deviation from 0.02 up
LINE = 1e-3  # 1 - r^2 of a straight line printed with three decimals is far below
CENTRED = 0.02  # of the root mean square: the mean of centred, printed advantages
LEGITIMATE = ("group_z_ddof0", "group_z_ddof1", "centred_only", "leave_one_out", "batch_scaled", "batch_baseline")
FAULTS = ("uncentred", "sign_flipped", "merged_groups", "misordered", "shifted", "all_zero", "other_reward")


def _fold(batch: Batch) -> Sums:
    reward, adv = batch.number("reward"), batch.number("advantage")
    keep = np.isfinite(reward) & np.isfinite(adv) & present(batch.text("group"))
    r, a = np.where(keep, reward, 0.0), np.where(keep, adv, 0.0)
    values = {
        "n": np.ones(batch.rows), "r": r, "rr": r * r, "a": a, "aa": a * a, "ra": r * a,
        "r_low": r, "r_high": r, "a_low": a, "a_high": a,
    }  # fmt: skip
    how = {"r_low": "min", "a_low": "min", "r_high": "max", "a_high": "max"}
    return by_label(batch, keep, batch.text("group"), values, how)


def _finish(sums: Sums) -> Series:
    if not sums.rows:
        return {}
    v, steps = sums.values, steps_of(sums)
    n = v["n"]
    whole = Sums.of((steps,), {k: v[k] for k in ("n", "r", "rr", "a", "aa", "a_low", "a_high")} | {"w": _dev(v)},
                    {"a_low": "min", "a_high": "max"})  # fmt: skip
    at = np.searchsorted(whole.keys[0], steps)
    w = {name: values[at] for name, values in whole.values.items()}
    live = (n > 1) & (v["r_high"] > v["r_low"])
    hits = _matches(v, w, live)
    per = Sums.of((steps,), {name: hit.astype(float) for name, hit in hits.items()} | {"live": live.astype(float)})
    groups, shown = per.values["live"], per.values["live"] > 0
    at_live = steps_of(per)[shown]
    out = {
        f"rollouts/advantage_match/{name}": (at_live, per.values[name][shown] / groups[shown])
        for name in (*LEGITIMATE, *FAULTS)
    }
    out["rollouts/advantage_groups"] = (at_live, groups[shown])
    s, all_steps = whole.values, steps_of(whole)
    out["rollouts/advantage_mean"] = (all_steps, s["a"] / s["n"])
    out["rollouts/advantage_std"] = series(all_steps, sd(s["n"], s["a"], s["aa"], ddof=1))
    out["rollouts/advantage_min"], out["rollouts/advantage_max"] = (all_steps, s["a_low"]), (all_steps, s["a_high"])
    return out


def _dev(v: Mapping[str, Float64]) -> Float64:
    """Return the sum of squared deviations of the rewards from their group's mean."""
    return np.asarray(np.maximum(v["rr"] - v["r"] ** 2 / v["n"], 0.0))


def _matches(v: Mapping[str, Float64], w: dict[str, Float64], live: np.ndarray) -> dict[str, np.ndarray]:
    """Return per hypothesis bool[groups]: this live group's advantages are what it says; several may match."""
    n, s_rr = v["n"], _dev(v)
    s_aa = np.maximum(v["aa"] - v["a"] ** 2 / n, 0.0)
    s_ra = v["ra"] - v["r"] * v["a"] / n
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = s_ra / s_rr
        line = live & (s_ra**2 >= (1 - LINE) * s_rr * s_aa) & (s_aa > 0)
        r_mean, a_mean, rms = v["r"] / n, v["a"] / n, np.sqrt(v["aa"] / n)
        centred = np.abs(a_mean) <= CENTRED * rms
        sd0, sd1 = np.sqrt(s_rr / n), np.sqrt(s_rr / (n - 1))
        scales = (
            np.sqrt(np.maximum(w["rr"] - w["r"] ** 2 / w["n"], 0.0) / w["n"]),
            np.sqrt(np.maximum(w["rr"] - w["r"] ** 2 / w["n"], 0.0) / np.maximum(w["n"] - 1, 1)),
            np.sqrt(w["w"] / w["n"]),
        )
        own = line & centred & (slope > 0)
        best = {
            "group_z_ddof0": np.abs(slope * sd0 - 1),
            "group_z_ddof1": np.abs(slope * sd1 - 1),
            "centred_only": np.abs(slope - 1),
            "leave_one_out": np.abs(slope * (n - 1) / n - 1),
            "batch_scaled": np.min([np.abs(slope * x - 1) for x in scales], axis=0),
        }
        off_batch = np.abs(a_mean - slope * (r_mean - w["r"] / w["n"]))
        baseline = line & ~centred & (slope > 0) & (off_batch <= CENTRED * rms)
        raw = line & ~centred & (slope > 0) & (np.abs(a_mean - slope * r_mean) <= CENTRED * np.abs(slope * r_mean))
        sizes = (n, n - 1, s_rr, s_rr * (n / (n - 1)) ** 2, *(s_rr / x**2 for x in scales))
        known_size = np.min([np.abs(s_aa / x - 1) for x in sizes], axis=0)
        crossed = live & ~line & centred & (known_size <= 4 * SLOPE_SLACK)
    hits = {name: own & (miss <= SLOPE_SLACK) for name, miss in best.items()}
    for name, other in (("group_z_ddof0", "group_z_ddof1"), ("group_z_ddof1", "group_z_ddof0")):
        hits[name] &= best[name] <= best[other]  # in large groups both are within the slack
    return hits | {
        "batch_baseline": baseline,
        "uncentred": raw & ~baseline,
        "sign_flipped": line & (slope < 0),
        "merged_groups": line & ~centred & (slope > 0) & ~baseline & ~raw,
        "misordered": crossed,
        "shifted": live & ~line & ~centred,
        "all_zero": live & (v["aa"] == 0),
        "other_reward": live & ~line & centred & ~crossed & (v["aa"] > 0),
    }


FACT = Fact(
    name="advantages",
    reads=("group", "reward", "advantage"),
    fold=_fold,
    finish=_finish,
    metrics=(
        "rollouts/advantage_match/*",
        "rollouts/advantage_groups",
        "rollouts/advantage_mean",
        "rollouts/advantage_std",
        "rollouts/advantage_min",
        "rollouts/advantage_max",
    ),
)
