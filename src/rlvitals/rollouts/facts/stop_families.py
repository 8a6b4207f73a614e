"""Broken endings per task family, with the design effect of rollouts that share a prompt.

Rollouts of a group end alike, so a share of n of them is less certain than n independent ones make it. The design
effect (first-order Rao-Scott) is the ratio of the two variances, estimated from the groups of each step.
"""

from __future__ import annotations

import numpy as np

from rlvitals.env import StopReason
from rlvitals.rollouts.fact import Apart, Fact, Series, Sums
from rlvitals.rollouts.facts.common import by_label, is_one, named, present
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Float64


def _fold(batch: Batch) -> Sums:
    reason, group, family = batch.text("stop_reason"), batch.text("group"), batch.text("family")
    keep = present(reason) & present(group) & present(family)
    values = {"n": np.ones(batch.rows), "broken": is_one(reason, StopReason.ERROR, StopReason.TIMEOUT).astype(float)}
    return by_label(batch, keep, family, values, more=(group,))


def _finish(sums: Sums) -> Series:
    n, hit = sums.values["n"], sums.values["broken"]
    per = Sums.of(sums.keys[:2], {"n": n, "broken": hit, "groups": np.ones(sums.rows), "nn": n * n, "hh": hit * hit,
                                  "nh": n * hit})  # fmt: skip
    return {
        **named(per, "rollouts/broken_family/", lambda s: s.values["broken"] / s.values["n"]),
        **named(per, "rollouts/broken_effect/", _design_effect),
    }


def _design_effect(s: Sums) -> Float64:
    """Return clustered over binomial variance of the share per row, at least 1; NaN where it is unknown.

    Under two groups, or where nothing or everything broke, a step does not say how alike rollouts of a group are.
    """
    v = s.values
    n, groups = v["n"], v["groups"]
    p = v["broken"] / n
    residual = v["hh"] - 2 * p * v["nh"] + p * p * v["nn"]  # sum over groups of (broken - p size)^2
    with np.errstate(invalid="ignore", divide="ignore"):
        clustered = residual * groups / (groups - 1) / n**2
        effect = clustered / (p * (1 - p) / n)
    return np.asarray(np.where((groups > 1) & (p > 0) & (p < 1), np.maximum(effect, 1.0), np.nan))


FACT = Fact(
    name="stop-families",
    reads=("stop_reason", "group", "family"),
    fold=_fold,
    finish=_finish,
    metrics=("rollouts/broken_family/*", "rollouts/broken_effect/*"),
    apart=Apart.FEW_LABELS,
)
