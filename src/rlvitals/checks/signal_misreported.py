"""S006: the logged share of tied groups is not the one that the rewards give."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlvitals.check import (
    Action,
    Check,
    Clear,
    Confidence,
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
from rlvitals.checks.common import fmt
from rlvitals.checks.rollout_common import LEAST, Recent, speaks
from rlvitals.view import View

LOGGED, OWN = "zero_variance_frac", "rollouts/zero_variance_frac"
WINDOW = 50  # rows in which both are compared


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    if view.config.drops_zero_variance:
        return NotApplicable("tied groups are dropped: log and dump may hold different groups")
    logged, own = view.rows_of(LOGGED, WINDOW), view.rows_of(OWN, WINDOW)
    both = np.isfinite(logged) & np.isfinite(own)
    if both.sum() < LEAST:
        return NoData((LOGGED, OWN), f"{int(both.sum())} recent rows have both; {LEAST} are needed")
    gap = own[both] - logged[both]
    now = Recent(OWN, view.steps_of(WINDOW)[both], own[both])
    limit, most = limits["difference"], limits["rows"]
    apart = np.abs(gap) > limit.value
    same = max(float((apart & (gap > 0)).mean()), float((apart & (gap < 0)).mean()))
    shown = f"logged {fmt(float(logged[both].mean()))}, recomputed from the rewards {fmt(now.mean)}"
    if same < most.value:
        return Clear(f"{shown}; they differ by more than {limit.value:g} in {apart.mean():.0%} of {both.sum()} steps")
    hidden = float(gap.mean()) > 0
    text = f"the share of tied groups is {shown} ({same:.0%} of the steps)"
    first = speaks(now, text, limit, observed=abs(float(gap.mean())), before=float(logged[both].mean()))
    at = int(now.steps[int(np.argmax(apart))])
    what = "more groups are tied than the log says" if hidden else "fewer groups are tied than the log says"
    return Fired(
        Finding(
            f"{what}: {shown}",
            Action.ADJUST if hidden else Action.WATCH,
            Confidence.HIGH if hidden else Confidence.MEDIUM,
            Onset(min(view.first_seen(OWN), at), at),
            (first,),
            "hidden" if hidden else "",
        )
    )


CHECK = Check(
    id="S006",
    name="zero-variance-misreported",
    family=Family.SIGNAL,
    fault="The logged share of groups without a reward difference is not the one that the rewards themselves give.",
    why="Some trainers take the spread over the whole batch, or round it, so that the share reads near zero with every "
    "group tied. A dashboard then shows signal where there is none. The rewards of the rollouts settle it.",
    needs=Needs(all_of=(LOGGED, OWN), rows=LEAST),
    thresholds=(
        Threshold(
            "difference",
            0.05,
            "of groups",
            SourceKind.DEFINITION,
            "the same groups have the same share; 0.05: rounding",
        ),
        Threshold("rows", 0.8, "of the steps", SourceKind.CONVENTION, "four of five steps, always to the same side"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Compare the groups of the dump with those of the log: filtered, sampled or all", "", "check"),
            ),
            verify=(Verify("log and rewards agree", OWN, "", None, 20),),
        ),
        "hidden": Plan(
            remedies=(
                Remedy("Read the share from the rewards, not from the trainer's metric", "", "set"),
                Remedy("Check whether advantages are scaled by the batch, where the metric is blind", "", "check"),
            ),
            verify=(Verify("log and rewards agree", OWN, "", None, 20),),
        ),
    },
    leads_to=(),
    patience=2,
    look_alikes=(
        LookAlike("A filter drops tied groups before the dump", "the config says so: not judged"),
        LookAlike("A dump of a sample of the groups", "the difference changes its sign from step to step"),
    ),
    sources=("docs/measurements.md: TRL's zero-variance share misses tied groups", "trl#3992"),
)
