"""R019: one task family's rewards spread so much wider that it owns the update."""

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
from rlvitals.checks.rollout_common import LEAST, recent, speaks
from rlvitals.view import View

PREFIX = "rollouts/reward_family_std/"


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    if view.config.advantage_scaling == "group":
        return NotApplicable("advantages are scaled by group: no family's scale counts")
    levels = {n: recent(view, n) for n in view.family(PREFIX)}
    levels = {n: now for n, now in levels.items() if now.n >= LEAST}
    if len(levels) < 2:
        return NotApplicable(f"{len(levels)} family has enough steps; two are needed to compare")
    spread = {n: now.mean for n, now in levels.items()}
    widest = max(spread, key=lambda n: spread[n])
    others = float(np.median([v for n, v in spread.items() if n != widest]))
    limit = limits["times"]
    label = widest.removeprefix(PREFIX)
    seen = f"rewards of {label} spread by {fmt(spread[widest])}, those of the other families by {fmt(others)}"
    if others <= 0 or spread[widest] < limit.value * others:
        return Clear(f"{seen}; limit {limit}")
    first = speaks(levels[widest], seen, limit, ">=", observed=spread[widest] / others, before=others)
    mean = recent(view, f"rollouts/reward_family/{label}")
    evidence: list[Evidence] = [first]
    if mean.n:
        evidence.append(Evidence(mean.metric, f"their mean is {fmt(mean.mean)}", mean.mean, "reward", mean.span))
    known = "" if view.config.advantage_scaling else "; with advantages scaled by group it does not matter"
    what = f"{label} has rewards {fmt(spread[widest] / others)} times as wide as the other families{known}"
    onset = Onset(view.first_seen(widest), int(levels[widest].steps[0]))
    return Fired(Finding(what, Action.WATCH, Confidence.MEDIUM, onset, tuple(evidence)))


CHECK = Check(
    id="R019",
    name="family-scale-dominates",
    family=Family.REWARD,
    fault="The rewards of one task family spread so much wider than the others' that it owns the update.",
    why="Without scaling by group an advantage is as large as the spread of its rewards. A family that pays 0 to 100 "
    "beside others that pay 0 to 1 then decides nearly all of the gradient, and the mean reward is its mean.",
    needs=Needs(any_of=(PREFIX,), rows=LEAST),
    thresholds=(
        Threshold("times", 3, "times the other families' spread", SourceKind.CONVENTION, "nine times in the variance"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Bring the rewards of all families to one scale", "verifier", "set"),
                Remedy("Or scale the advantages by group", "advantage_scaling", "set"),
            ),
            verify=(Verify("no family's rewards spread three times as wide", PREFIX, "", None, 20),),
        ),
    },
    leads_to=("R006", "T007", "U002"),
    patience=2,
    look_alikes=(
        LookAlike("A solved family spreads little", "the median of the others is compared, not the narrowest"),
        LookAlike("Advantages scaled by group", "the scale drops out: not judged"),
    ),
    sources=("Dr. GRPO 2503.20783", "Why GRPO training fails: reward extraction"),
)
