"""Why rollouts ended, per step, and whether what stands as cut at the budget can have been."""

from __future__ import annotations

import numpy as np

from rlvitals.env import StopReason
from rlvitals.rollouts.fact import Apart, Fact, Series, Sums
from rlvitals.rollouts.facts.common import Mask, again, is_one, named, pick, present, ratio
from rlvitals.rollouts.table import MISSING, Batch
from rlvitals.schema import Example

SHORT = 0.7  # of the budget: a completion shorter than that was not cut by it


def _fold(batch: Batch) -> Sums:
    reason = batch.text("stop_reason")
    keep = present(reason)
    tokens, budget = batch.integer("tokens"), batch.integer("token_budget")
    sized = (tokens != MISSING) & is_one(reason, StopReason.BUDGET) & ~_several_turns(batch)
    ones = np.ones(batch.rows)
    values = {
        "n": ones,
        "cut": is_one(reason, StopReason.BUDGET).astype(float),
        "sized": sized.astype(float),
        "longest": np.where(sized, tokens, 0).astype(float),
        "short": (sized & (budget != MISSING) & (tokens < SHORT * budget)).astype(float),
        "budgeted": (sized & (budget != MISSING)).astype(float),
    }
    keys = (batch.integer("step")[keep], reason[keep])
    return Sums.of(keys, {n: v[keep] for n, v in values.items()}, {"longest": "max"})


def _several_turns(batch: Batch) -> Mask:
    """A budget may hold for one turn, so that a whole conversation says nothing of it."""
    turns = batch.integer("turns")
    return np.asarray((turns != MISSING) & (turns > 1))


def _finish(sums: Sums) -> Series:
    per_step = again(sums, dict(sums.values), {"longest": "max"})
    all_of = dict(zip(per_step.keys[0].tolist(), per_step.values["n"].tolist(), strict=True))
    total = np.array([all_of[s] for s in sums.keys[0].tolist()])
    return {
        "rollouts/truncated_frac": ratio(per_step, "cut", "n"),
        "rollouts/cut_short_frac": ratio(per_step, "short", "budgeted", least=4),
        **_filled(named(sums, "rollouts/stop_frac/", lambda s: s.values["n"] / total), per_step),
    }


def _filled(found: Series, per_step: Sums) -> Series:
    """Write 0 where a reason did not occur in a step whose other reasons are known."""
    steps = np.asarray(per_step.keys[0], dtype=np.int64)
    out = {}
    for name, (at, values) in found.items():
        full = np.zeros(steps.size)
        full[np.searchsorted(steps, at)] = values
        out[name] = (steps, full)
    return out


def _examples(batch: Batch, sums: Sums) -> tuple[Example, ...]:
    broken = is_one(batch.text("stop_reason"), StopReason.ERROR, StopReason.TIMEOUT)
    return pick(batch, broken, "stops")


FACT = Fact(
    name="stops",
    reads=("stop_reason",),
    fold=_fold,
    finish=_finish,
    metrics=("rollouts/truncated_frac", "rollouts/cut_short_frac", "rollouts/stop_frac/*"),
    examples=_examples,
    also=("tokens", "token_budget", "turns", "reward"),
    apart=Apart.NEVER,
)
