"""How many groups would be copies of one text by the policy's own certainty: the law that copies are compared with.

A rollout whose text has probability p under the sampler is met again by the G - 1 others of its group with probability
p ** (G - 1). Its mean over rollouts is the expected share of groups that are all copies when nothing is wrong (each
group's expectation is the sum over texts of p ** G, and its rollouts draw texts with weight p). A policy that is that
certain makes copies; a sampler with a fixed seed or a cache makes more of them than it.
"""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums, codes
from rlvitals.rollouts.facts.common import by_step, present, ratio
from rlvitals.rollouts.table import Batch

LEAST_GROUP = 3  # rollouts, as in the fact of the copies themselves


def _fold(batch: Batch) -> Sums:
    logp, group = batch.number("sampler_logp_sum"), batch.text("group")
    at, names = codes(group)
    step = np.unique(batch.integer("step"), return_inverse=True)[1]
    _, mine, sizes = np.unique(step * len(names) + at, return_inverse=True, return_counts=True)
    size = sizes[mine].astype(np.float64)
    known = present(group) & np.isfinite(logp) & (size >= LEAST_GROUP)
    with np.errstate(under="ignore"):
        again = np.exp(np.where(known, np.minimum(logp, 0.0) * (size - 1), 0.0))
    return by_step(batch, known, {"copied": np.where(known, again, 0.0), "n": known.astype(float)})


def _finish(sums: Sums) -> Series:
    return {"rollouts/copied_law_frac": ratio(sums, "copied", "n")}


FACT = Fact(
    name="copied-law",
    reads=("group", "sampler_logp_sum"),
    fold=_fold,
    finish=_finish,
    metrics=("rollouts/copied_law_frac",),
)
