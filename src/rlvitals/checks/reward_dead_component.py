"""R012: a reward component has been the same number all along."""

from __future__ import annotations

from collections.abc import Mapping

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
from rlvitals.view import View

PARTS = "reward_part/"


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    rows = limits["rows"]
    names = [n for n in view.family(PARTS) if view.count(n) >= rows.value]
    if len(names) < 2:
        return NotApplicable("the reward has fewer than two logged components")
    low, _, high, _ = view.extremes("reward_mean")
    dead = [n for n in names if view.extremes(n)[0] == view.extremes(n)[2]]
    if not dead or low == high:
        return Clear(f"each of the {len(names)} components has taken more than one value")
    shown = ", ".join(f"{n[len(PARTS) :]} = {fmt(view.extremes(n)[0])}" for n in dead[:4])
    since = min(view.first_seen(n) for n in dead)
    return Fired(
        Finding(
            f"{len(dead)} of {len(names)} reward components never changed: {shown}",
            Action.WATCH,
            Confidence.HIGH,
            Onset(since, since),
            tuple(
                Evidence(
                    n,
                    f"{n} is exactly {fmt(view.extremes(n)[0])} in all {view.count(n)} logged steps (limit {rows}); "
                    f"it adds "
                    "nothing to any advantage",
                    view.extremes(n)[0],
                    "reward",
                    (view.first_seen(n), view.last_seen(n)),
                    rows,
                    ">=",
                )
                for n in dead[:4]
            ),
        )
    )


CHECK = Check(
    id="R012",
    name="dead-component",
    family=Family.REWARD,
    fault="A component of the reward has had one single value since the start.",
    why="A constant component cancels in every group. Its regular expression may never match, its input may be "
    "missing, or the policy never produces what it pays for: then it is not part of what is being trained.",
    needs=Needs(all_of=("reward_mean",), any_of=(PARTS,), rows=30),
    thresholds=(
        Threshold(
            "rows", 30, "identical logged steps", SourceKind.DEFINITION, "a constant cancels in every group's advantage"
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Test the component on a hand-written answer that should earn it", "verifier", "check"),
                Remedy("Remove it, or give partial credit on the way to it", "verifier", "set"),
            ),
            verify=(Verify("the component takes more than one value", "", "", None, 50),),
        )
    },
    leads_to=(),
    look_alikes=(
        LookAlike("a component that is rare", "it has taken a second value at least once"),
        LookAlike("the total is constant too", "R001 explains it"),
    ),
    sources=("docs/evidence.md: What no curve shows",),
)
