"""T007: success on one tier is lost while others are still being learned."""

from __future__ import annotations

import math
from collections.abc import Mapping

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
    NotApplicable,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import course
from rlvitals.checks.common import fall_onset, fmt
from rlvitals.checks.rollout_common import ROWS, recent, speaks
from rlvitals.view import View

PREFIX = "success_tier/"


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    names = [n for n in view.family(PREFIX) if view.count(n) >= 2 * ROWS]
    if len(names) < 2:
        return NotApplicable(f"{len(names)} tier has {2 * ROWS} logged values; two are needed to compare")
    falls = {n: course.decline(view, n) for n in names}
    names = [n for n in names if math.isfinite(falls[n].drop) and math.isfinite(falls[n].z)]
    if len(names) < 2:
        return Clear("no two tiers have a stretch to compare with")
    limit, sure = limits["drop"], limits["z"]
    lost = [n for n in names if falls[n].drop >= limit.value and falls[n].z > sure.value]
    held = [n for n in names if falls[n].drop < 0.5 * limit.value]
    worst = max(lost or names, key=lambda n: falls[n].drop)
    found = falls[worst]
    label = worst.removeprefix(PREFIX)
    seen = (
        f"success on tier {label} is {fmt(found.now)}, {fmt(found.best)} in its best stretch (step {found.best_step})"
    )
    if not lost or not held:
        return Clear(f"{seen}; limit {limit} while another tier holds")
    now = recent(view, worst)
    first = speaks(now, f"{seen}, {fmt(found.z)} standard errors", limit, ">=", observed=found.drop, before=found.best)
    other = max(held, key=lambda n: falls[n].now)
    kept = recent(view, other)
    second = speaks(kept, f"tier {other.removeprefix(PREFIX)} holds at {fmt(kept.mean)}", limit, "<",
                    observed=max(falls[other].drop, 0.0))  # fmt: skip
    what = f"tier {label} is being forgotten: {fmt(found.best)} to {fmt(found.now)}, while other tiers hold"
    return Fired(Finding(what, Action.WATCH, Confidence.MEDIUM, fall_onset(view, worst), (first, second)))


CHECK = Check(
    id="T007",
    name="tier-forgotten",
    family=Family.TASK,
    fault="Success on one difficulty tier is lost again while other tiers hold or rise.",
    why="The mean over tiers can rise while an easy tier that is drawn less is unlearned, or a hard one is given up "
    "for quick wins. Success per tier against time shows it at once.",
    needs=Needs(any_of=(PREFIX,), rows=2 * ROWS),
    thresholds=(
        Threshold("drop", 0.15, "of the success rate", SourceKind.CONVENTION, "more than one task in seven"),
        Threshold("z", 4, "standard errors", SourceKind.MEASURED, "docs/measurements.md: Rollout checks"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Read ten rollouts of the lost tier from before and after the onset", "", "check"),
                Remedy("Draw more of the lost tier", "curriculum", "set"),
            ),
            verify=(Verify("success on the lost tier does not fall further", PREFIX, "not falling", None, 50),),
        ),
    },
    leads_to=("H001", "H002"),
    patience=2,
    look_alikes=(
        LookAlike("Every tier falls", "that is the whole policy: reward-declining, reward-collapse"),
        LookAlike("A small tier is noisy", "the fall must be four standard errors of its own steps"),
    ),
    sources=("Why GRPO training fails: sparse and saturated rewards", "docs/measurements.md: Rollout checks"),
)
