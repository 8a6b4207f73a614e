"""Y005: long rollouts are thrown away, so that the policy trains on the quick ones."""

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
from rlvitals.checks.rollout_common import LEAST, began, certainty, recent, speaks
from rlvitals.view import View

LOST, LONGER = "rollouts/discarded_frac", "rollouts/discarded_length_ratio"


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    lost, longer = recent(view, LOST), recent(view, LONGER)
    limit, ratio, sure = limits["discarded"], limits["longer"], limits["z"]
    seen = f"{lost.mean:.1%} of the groups with a reward difference were not trained on"
    if lost.mean < limit.value or longer.n < LEAST:
        return Clear(f"{seen}; limit {limit}")
    times = float(np.exp(np.log(longer.values).mean()))
    z = certainty(np.log(longer.values))
    seen = f"{seen}; they are {fmt(times)} times as long as the trained ones ({z:+.1f} standard errors)"
    if times < ratio.value or z < sure.value:
        return Clear(f"{seen}; limit {ratio}")
    shown = view.examples("trained", 3)
    first = speaks(longer, seen, ratio, ">=", observed=times, before=1.0, examples=shown)
    second = speaks(lost, f"{lost.mean:.0%} of these groups are lost", limit, ">=", before=began(view, LOST))
    onset = onset_of(view, LOST, limit.value, np.inf)
    what = f"slow prompts are discarded: {lost.mean:.0%} of the useful groups, {fmt(times)} times as long as those kept"
    return Fired(Finding(what, Action.WATCH, Confidence.MEDIUM, onset, (first, second)))


CHECK = Check(
    id="Y005",
    name="slow-prompts-discarded",
    family=Family.SYNC,
    fault="Groups that take long are thrown away, so that the policy trains on the quick ones alone.",
    why="An asynchronous trainer that drops late or over-stale groups keeps its version lag perfect and selects by "
    "speed: long answers and slow environments never reach the update. The lag metric looks better for it.",
    needs=Needs(all_of=(LOST,), rows=10),
    thresholds=(
        Threshold("discarded", 0.05, "of groups with a reward difference", SourceKind.CONVENTION, "one in twenty"),
        Threshold("longer", 1.25, "times the length of the kept ones", SourceKind.CONVENTION, "a quarter longer"),
        Threshold("z", 4, "standard errors", SourceKind.MEASURED, "docs/measurements.md: Rollout checks"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Wait for late groups, or carry them over to the next step with an importance weight", "sync", "set"
                ),
                Remedy("Compare the lengths sampled with the lengths trained on, per family", "", "check"),
            ),
            verify=(Verify("fewer than one useful group in twenty is lost", LOST, "<", 0.05, 20),),
        ),
    },
    leads_to=("L003", "R010", "H001"),
    patience=2,
    look_alikes=(
        LookAlike("A filter that drops tied groups", "groups without a reward difference are not counted"),
        LookAlike("Groups lost at random", "the lost ones are no longer than the kept ones"),
    ),
    sources=(
        "docs/evidence.md: Healthy bands and their sources",
        "Why GRPO training fails: stale rollouts",
        "marin#8955",
    ),
)
