"""R016: a stretch of neighbouring groups earns one reward, longer than chance can make it."""

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
    Onset,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt
from rlvitals.checks.rollout_common import recent, speaks
from rlvitals.view import View

CHANCE, SIZE, VALUE = (
    "rollouts/same_streak_log10p",
    "rollouts/same_streak",
    "rollouts/same_streak_value",
)


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    now, values = recent(view, CHANCE), recent(view, VALUE)
    limit, few = limits["log10_chance"], limits["steps"]
    hit = now.values < limit.value
    least = float(now.values.min())
    shown = f"the longest stretch of groups with one reward has a chance of 10^{least:.1f} in its step"
    if hit.sum() < few.value:
        return Clear(f"{shown}; {int(hit.sum())} of {now.n} steps are below 10^{limit.value:g}; {few} are needed")
    always = float((view.head(CHANCE) < limit.value).mean()) >= limits["always"].value
    worst = int(np.argmin(now.values))
    level = dict(zip(values.steps.tolist(), values.values.tolist(), strict=True)).get(int(now.steps[worst]))
    sizes = recent(view, SIZE)
    longest = float(sizes.values.max())
    at = f" of {fmt(level)}" if level is not None else ""
    text = f"{int(hit.sum())} of {now.n} steps hold a stretch too long for chance, the longest {fmt(longest)} rollouts"
    first = speaks(now, f"{text}; {shown}", limit, "<", observed=least, examples=view.examples("streaks", 3))
    seen = np.flatnonzero(hit)
    onset = Onset(view.first_step, int(now.steps[seen[0]])) if always else Onset(*(int(now.steps[seen[0]]),) * 2)
    what = f"neighbouring rollouts earn the same reward{at} in stretches of up to {fmt(longest)}"
    cause = "the dump may stand in order of its sources" if always else "a worker may return a default"
    confidence = Confidence.LOW if always else Confidence.MEDIUM
    finding = Finding(f"{what}: {cause}", Action.WATCH, confidence, onset, (first,), "always" if always else "")
    return Fired(finding)


CHECK = Check(
    id="R016",
    name="same-reward-streak",
    family=Family.REWARD,
    fault="Stretches of neighbouring rollouts earn one and the same reward, longer than chance makes them.",
    why="A verifier worker that fails returns its default for everything it scores, which is a stretch of the dump. "
    "The mean of the step hides it. If the groups tied at a value stood in random order, so long a stretch would "
    "hardly ever be seen.",
    needs=Needs(all_of=(CHANCE, VALUE, SIZE), rows=10),
    thresholds=(
        Threshold(
            "log10_chance", -4, "log10 of the chance", SourceKind.MEASURED, "docs/measurements.md: Rollout checks"
        ),
        Threshold("steps", 2, "of the last 20 steps", SourceKind.CONVENTION, "once in ten thousand is chance at times"),
        Threshold("always", 0.5, "of the first steps", SourceKind.CONVENTION, "an order of the dump is always there"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Look at the raw verifier output of the rollouts in the stretch", "verifier", "check"),
                Remedy("Compare what each verifier worker returned; count exceptions per worker", "verifier", "check"),
            ),
            verify=(Verify("no stretch is longer than chance makes it", CHANCE, ">", -4.0, 30),),
        ),
        "always": Plan(
            remedies=(Remedy("Check whether the dump is sorted by source; give the source as family", "", "check"),),
            verify=(Verify("no stretch is longer than chance makes it", CHANCE, ">", -4.0, 30),),
        ),
    },
    leads_to=("R006", "R014", "S001"),
    look_alikes=(
        LookAlike("A dump sorted by reward", "the groups stand in order of their means: not judged"),
        LookAlike(
            "One data source after the other", "families are looked at one by one; without them it was always so"
        ),
        LookAlike("Nearly every group is tied", "then long stretches are likely, and the chance says so"),
    ),
    sources=("docs/measurements.md: Identical streaks", "docs/measurements.md: Rollout checks"),
)
