"""H002: a held-out score has fallen from its best by more than its noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

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
    Onset,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt
from rlvitals.checks.held import Drop, drop, errors
from rlvitals.view import Held, View


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    found: list[tuple[float, str, Drop]] = []
    for name, held in sorted(view.evals.items()):
        fall = drop(held)
        if fall is not None and math.isfinite(fall.z):
            found.append((fall.z, name, fall))
    if not found:
        return NoData(("held-out",), "four held-out scores with a known standard error are needed")
    z, name, fall = max(found)
    watch, act = limits["z_watch"], limits["z_act"]
    if not z > watch.value:
        return Clear(
            f"held-out {name} is {fmt(fall.last)} against {fmt(fall.best)} at its best pair: z {z:.1f}; limit "
            f"{watch.value:g}"
        )
    size = (fall.best - fall.last) / abs(fall.best) if fall.best else 0.0
    hard = z > act.value and size >= limits["size"].value and _seen_twice(view.evals[name], act.value)
    limit = act if hard else watch
    return Fired(
        Finding(
            f"Held-out {name} fell from {fmt(fall.best)} to {fmt(fall.last)}",
            Action.ADJUST if hard else Action.WATCH,
            Confidence.HIGH if hard else Confidence.MEDIUM,
            Onset(fall.best_step, max(fall.first_low_step, fall.best_step)),
            (
                Evidence(
                    f"held-out/{name}",
                    f"held-out {name} averaged {fmt(fall.best)} in its best two evaluations (up to step "
                    f"{fall.best_step}) and {fmt(fall.last)} in the last ones; lower since step {fall.first_low_step}: "
                    f"z {z:.1f} (limit {limit})",
                    z,
                    "standard errors",
                    (fall.best_step, int(view.evals[name].step[-1])),
                    limit,
                    ">",
                    fall.best,
                ),
            ),
        )
    )


def _seen_twice(held: Held, limit: float) -> bool:
    """Return True when it had fallen as surely one evaluation earlier, by the errors known now: a policy swings."""
    earlier = drop(replace(held, step=held.step[:-1], score=held.score[:-1], stderr=errors(held)[:-1]))
    return earlier is not None and earlier.z > limit


CHECK = Check(
    id="H002",
    name="heldout-regression",
    family=Family.HELD_OUT,
    fault="A held-out score has fallen from its best by more than its noise.",
    why="The checkpoint to keep is an earlier one. The best of several noisy scores overstates itself, so the best "
    "pair in a row is compared with the last two or three, at a level that allows for the choice. A move is asked for "
    "when two evaluations in a row say so.",
    needs=Needs(all_of=("held-out",), rows=4),
    thresholds=(
        Threshold("z_watch", 2.6, "standard errors", SourceKind.MEASURED, "docs/measurements.md: held-out drop"),
        Threshold("z_act", 3.5, "standard errors", SourceKind.MEASURED, "docs/measurements.md: held-out drop"),
        Threshold("size", 0.1, "of the best score", SourceKind.CONVENTION, "smaller regressions are only watched"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Keep the earliest checkpoint that ties with the best held-out score", "", ""),
                Remedy("Look at what moved before the fall: entropy, KL, length, reward components", "", "check"),
                Remedy("Lower the learning rate or end the run", "learning_rate", "lower"),
            ),
            verify=(Verify("the held-out score stops falling", "held-out", "not falling", None, 100),),
            rollback=Rollback.BEFORE_ONSET,
        )
    },
    leads_to=("H003",),
    look_alikes=(
        LookAlike("last score below the highest of many", "the best pair is compared, not the single maximum"),
        LookAlike("a small set such as 30 items", "its standard error is 9 points"),
        LookAlike("a policy that swings down and back", "only watched until the next evaluation is as low"),
    ),
    sources=("docs/measurements.md: Held-out drop tests",),
)
