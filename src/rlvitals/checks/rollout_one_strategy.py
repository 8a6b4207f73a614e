"""O004: all rollouts of a prompt have come to go about it the same way."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlvitals import stats
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
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt, onset_of
from rlvitals.checks.rollout_common import ROWS, change, mastered, recent, speaks
from rlvitals.view import View

METRIC, SIMILAR = "rollouts/one_strategy_frac", "rollouts/similarity_mean"


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    now = recent(view, METRIC)
    first, late, z = change(view, METRIC)
    limit, grown = limits["share"], limits["grown"]
    seen = f"{now.mean:.0%} of the groups go about it in one way, {fmt(first)} at the start ({z:+.1f} standard errors)"
    right = stats.mean(mastered(view, now.steps))
    if now.mean - right < limit.value:
        return Clear(f"{seen}, {right:.0%} of the groups are all right; limit {limit}, those that are all right apart")
    if not (late - first > grown.value and z > limits["z"].value):
        return Clear(f"{seen}; limit {limit}, {fmt(grown.value)} above the start")
    evidence = [speaks(now, seen, limit, ">=", before=first)]
    alike = recent(view, SIMILAR)
    if alike.n:
        text = f"the completions of a group share {fmt(alike.mean)} of their word triples"
        evidence.append(Evidence(SIMILAR, text, alike.mean, "fraction", alike.span))
    onset = onset_of(view, METRIC, first + grown.value, np.inf)
    what = f"one strategy is left: {now.mean:.0%} of the groups, {fmt(first)} at the start"
    return Fired(Finding(what, Action.WATCH, Confidence.MEDIUM, onset, tuple(evidence)))


CHECK = Check(
    id="O004",
    name="one-strategy",
    family=Family.ROLLOUT,
    fault="All rollouts of a prompt have come to go about it the same way, with other numbers at most.",
    why="GRPO learns from differences between the rollouts of a prompt. When one way of working is left, better ones "
    "are no longer tried, and pass@k stops growing while pass@1 still may. It comes before groups of copies do.",
    needs=Needs(all_of=(METRIC,), rows=2 * ROWS),
    thresholds=(
        Threshold("share", 0.5, "of groups", SourceKind.CONVENTION, "most groups, mastered ones apart"),
        Threshold("grown", 0.25, "of groups", SourceKind.CONVENTION, "a quarter of the groups since the start"),
        Threshold("z", 4, "standard errors", SourceKind.MEASURED, "docs/measurements.md: Rollout checks"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Read two groups in full: is the one way left the right one", "", "check"),
                Remedy("Raise the sampling temperature", "temperature", "raise"),
            ),
            verify=(Verify("the share no longer grows", METRIC, "not rising", None, 50),),
        ),
    },
    leads_to=("O002", "S001"),
    patience=2,
    look_alikes=(
        LookAlike("A fixed answer format", "it is there from the start: the share has not grown"),
        LookAlike("Mastered prompts are answered in one way", "groups that are all right are taken off the share"),
        LookAlike("Short answers have one way only", "the same: judged against the run's own start"),
    ),
    sources=("Why GRPO training fails: rollout diversity", "docs/measurements.md: Diversity"),
)
