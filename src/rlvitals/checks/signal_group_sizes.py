"""S007: groups do not have the size that was configured."""

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
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt, onset_of
from rlvitals.checks.rollout_common import recent, speaks
from rlvitals.view import View

LOW, MEAN, HIGH = (f"rollouts/group_size_{end}" for end in ("min", "mean", "max"))


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    low, mean, high = (recent(view, m) for m in (LOW, MEAN, HIGH))
    n = min(low.n, mean.n, high.n)
    least, most, usual = low.values[-n:], high.values[-n:], float(np.median(mean.values[-n:]))
    own = view.config.group_size
    wanted = float(own) if own else float(np.median(most))
    said = f"{own} are configured" if own else f"the largest groups have {fmt(wanted)}"
    seen = (
        f"groups have {fmt(float(least.min()))} to {fmt(float(most.max()))} rollouts, {fmt(usual)} on average; {said}"
    )
    often = limits["rows"].value
    if own and float((most > own).mean()) >= often:
        first = speaks(high, f"the largest group has {fmt(float(np.median(most)))} rollouts; {said}", limits["larger"],
                       observed=float(np.median(most)), before=wanted)  # fmt: skip
        what = f"groups are larger than configured ({fmt(float(np.median(most)))} instead of {own}): prompts are merged"
        onset = onset_of(view, HIGH, own + 0.5, np.inf)
        return Fired(Finding(what, Action.FIX, Confidence.HIGH, onset, (first,), "larger"))
    short = float((least < wanted).mean())
    limit = limits["share_of_size"]
    if short < often or usual >= limit.value * wanted:
        return Clear(f"{seen}; limit {limit}")
    first = speaks(mean, f"{seen}, in {short:.0%} of the steps", limit, "<", observed=usual / wanted, before=wanted)
    onset = onset_of(view, MEAN, -np.inf, limit.value * wanted)
    if usual < limits["pair"].value:
        first = speaks(mean, seen, limits["pair"], "<", observed=usual, before=wanted)
        what = f"groups have {fmt(usual)} rollouts on average: there is hardly anyone to compare with; {said}"
        return Fired(Finding(what, Action.ADJUST, Confidence.HIGH, onset, (first,), "single"))
    what = f"groups are incomplete: {fmt(usual)} rollouts on average, {said}"
    return Fired(Finding(what, Action.WATCH, Confidence.MEDIUM, onset, (first,), "incomplete"))


CHECK = Check(
    id="S007",
    name="group-size-wrong",
    family=Family.SIGNAL,
    fault="Groups are larger or smaller than configured, or of mixed size.",
    why="The baseline of a rollout is the mean of its group. Two prompts in one group are compared with each other; a "
    "group that lost members compares with fewer, and a group of one has no advantage at all. The batch means of the "
    "advantages look normal in every case.",
    needs=Needs(all_of=(LOW, MEAN, HIGH), rows=5),
    thresholds=(
        Threshold("larger", 0, "rollouts above the configured size", SourceKind.DEFINITION, "a group is one prompt"),
        Threshold("rows", 0.5, "of the last 20 steps", SourceKind.CONVENTION, "a single odd step is no pattern"),
        Threshold("share_of_size", 0.9, "of the size", SourceKind.CONVENTION, "one rollout in ten is missing"),
        Threshold("pair", 2, "rollouts", SourceKind.DEFINITION, "a group mean needs two rollouts"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(Remedy("Check how rollouts are grouped: by prompt id, with G rows of each", "", "check"),),
            verify=(Verify("every group has the configured size", MEAN, "", None, 10),),
        ),
        "larger": Plan(
            remedies=(
                Remedy("Group by the id of the sampled prompt, not by its text or its place in the batch", "", "set"),
                Remedy("Check whether the same prompt stands twice in a batch", "", "check"),
            ),
            verify=(Verify("no group is larger than configured", HIGH, "", None, 10),),
        ),
        "single": Plan(
            remedies=(
                Remedy("Check how rollouts are grouped: by prompt id, with G rows of each", "", "check"),
                Remedy("Sample several rollouts of every prompt, 8 or more", "group_size", "raise"),
            ),
            verify=(Verify("groups have more than one rollout", MEAN, ">", 1.5, 10),),
        ),
        "incomplete": Plan(
            remedies=(
                Remedy("Count which rollouts of a group are lost: errors, time-outs or a length filter", "", "check"),
            ),
            verify=(Verify("nine of ten rollouts are there", MEAN, "", None, 10),),
        ),
    },
    leads_to=("S001", "S002", "S008", "S009"),
    patience=2,
    look_alikes=(
        LookAlike("A few rollouts left out for verifier errors", "fewer than one in ten"),
        LookAlike("A dump that holds part of the step", "its groups are whole: smallest and largest are equal"),
    ),
    sources=("docs/evidence.md: What no curve shows", "NeMo-RL PR#3882", "AReaL PR#1454"),
)
