"""U004: nothing is ever clipped although the policy changes between the updates of one rollout batch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlvitals.check import (
    Action,
    Check,
    Clear,
    Confidence,
    Evidence,
    Family,
    Finding,
    Fired,
    LookAlike,
    Needs,
    NoData,
    NotApplicable,
    Onset,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.signal_common import tied_groups, zero_may_be_rounding
from rlvitals.store import WINDOW
from rlvitals.view import View

MIN_ROWS = 20
NO_CLIPPING = frozenset({"reinforce", "gpg", "cispo", "sapo", "vespo", "dro", "kimi", "rloo"})
"""Losses without a clipped ratio, or that log another clip metric."""


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    updates = view.config.updates_per_rollout or 0.0
    loss = (view.config.loss_type or "").lower()
    if loss in NO_CLIPPING:
        return NotApplicable(f"the {loss} loss clips no ratio")
    if updates <= 1:
        return NotApplicable("one update per rollout batch: the ratio is 1 and nothing can clip")
    rows = view.count("clip_frac", raw=True)
    if rows < MIN_ROWS:
        return NoData(("clip_frac",), f"needs {MIN_ROWS} values")
    highest = view.extremes("clip_frac")[2]
    if highest > 0:
        return Clear(f"the clip fraction reaches {highest:.3g} with {updates:g} updates per rollout batch")
    if zero_may_be_rounding(view, "clip_frac"):
        return NoData(("clip_frac",), "printed with three decimals: 0.000 may be up to 0.0005")
    moved = _rows_with_signal(view)
    if moved is not None and moved < MIN_ROWS:
        return NoData(("clip_frac",), f"{moved} rows had a learning signal: nothing moved, so nothing could clip")
    evidence = [
        Evidence(
            metric="clip_frac",
            text=f"the clip fraction is exactly 0 in all of {rows} rows with {updates:g} updates per rollout batch",
            observed=highest,
            unit="fraction",
            steps=(view.first_seen("clip_frac"), view.last_seen("clip_frac")),
            threshold=limits["clip_frac"],
            comparison="==",
        )
    ]
    same = _old_is_new(view, limits)
    if same is not None:
        evidence.append(same)
    onset = Onset(view.first_seen("clip_frac"), view.first_seen("clip_frac"))
    if same is None:
        summary = f"nothing was ever clipped in {updates:g} updates per rollout batch: small updates, or no clipping"
        return Fired(Finding(summary, Action.WATCH, Confidence.LOW, onset, tuple(evidence), "clip fraction only"))
    summary = "old and new log-probabilities are the same in every update: the ratio is 1 and clipping is off"
    return Fired(Finding(summary, Action.FIX, Confidence.HIGH, onset, tuple(evidence)))


def _rows_with_signal(view: View) -> int | None:
    """Return how many of the recent rows had a group with differing rewards, None where that is not logged."""
    tied = tied_groups(view, WINDOW)
    return None if tied is None else int(np.count_nonzero(tied.values < 1.0))


def _old_is_new(view: View, limits: Mapping[str, Threshold]) -> Evidence | None:
    """Return the proof that old and new log-probabilities are the same: ratio exactly 1 or divergence exactly 0."""
    for metric, value in (("ratio_max", 1.0), ("ratio_mean", 1.0), ("kl_old_new", 0.0)):
        found = view.recent(metric)[1]
        if found.size < MIN_ROWS or not np.all(found == value):
            continue
        low, _, high, _ = view.extremes(metric)
        if low == high == value and not zero_may_be_rounding(view, metric):
            return Evidence(
                metric=metric,
                text=f"{metric} is exactly {value:g} in all of {view.count(metric, raw=True)} rows; after a first "
                "update "
                "of the same batch it cannot be",
                observed=value,
                unit="ratio" if value else "nats/token",
                steps=(view.first_seen(metric), view.last_seen(metric)),
                threshold=limits["old_is_new"],
                comparison="==",
            )
    return None


CHECK = Check(
    id="U004",
    name="clipping-off",
    family=Family.UPDATE,
    fault="Nothing is ever clipped although several updates are made per rollout batch.",
    why="After the first update of a batch the policy differs from the one that sampled, so some ratio leaves the clip "
    "range. If old log-probabilities are recomputed with the new weights, the ratio is always 1: clipping is off, "
    "and the "
    "later updates of a batch run without a brake.",
    needs=Needs(config=("updates_per_rollout",)),
    thresholds=(
        Threshold("clip_frac", 0, "fraction", SourceKind.CONVENTION, "rarely exactly 0 with several updates per batch"),
        Threshold("old_is_new", 0, "difference", SourceKind.DEFINITION, "an update changes the log-probabilities"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Keep the log-probabilities of the sampling policy for all updates of a batch", "", "check"),
                Remedy("Or make one update per rollout batch", "updates_per_rollout", "lower"),
            ),
            verify=(Verify("the clip fraction is above 0", "clip_frac", "some >", 0.0, 50),),
        ),
        "clip fraction only": Plan(
            remedies=(Remedy("Log the largest ratio of a step; exactly 1 proves that clipping is off", "", "check"),),
            verify=(Verify("the largest ratio differs from 1", "ratio_max", ">", 1.0, 20),),
        ),
    },
    leads_to=("K001", "U002", "E002"),
    look_alikes=(
        LookAlike("One update per rollout batch: the ratio is 1 by construction", "updates per rollout batch"),
        LookAlike("A clip fraction of 3e-4 printed as 0.000", "every printed value is a multiple of 0.001"),
    ),
    sources=("docs/false-alarms.md: 9", "SkyRL#1315", "open-instruct PR#755"),
)
