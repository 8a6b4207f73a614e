"""H003: the best held-out checkpoint lies behind the current one."""

from __future__ import annotations

import math
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
    Onset,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt
from rlvitals.checks.held import errors
from rlvitals.view import View


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    limit = limits["standard_errors"]
    usable = [(n, h, errors(h)) for n, h in sorted(view.evals.items()) if h.step.size >= 3]
    usable = [(n, h, e) for n, h, e in usable if np.isfinite(e).all()]
    if not usable:
        return NoData(("held-out",), "three held-out scores with a known standard error are needed")
    name, held, error = max(usable, key=lambda item: item[1].step.size)
    best = int(np.argmax(held.score))
    top, last = float(held.score[best]), float(held.score[-1])
    noise = math.hypot(float(error[best]), float(error[-1]))
    tied = int(np.flatnonzero(held.score >= top - error[best])[0])
    behind = (top - last) / noise if noise > 0 else 0.0
    if behind <= limit.value:
        return Clear(
            f"held-out {name} is {fmt(last)} now and {fmt(top)} at its best (step {int(held.step[best])}): "
            f"{behind:.1f} "
            f"standard errors; limit {limit.value:g}"
        )
    return Fired(
        Finding(
            f"The best held-out checkpoint has been passed: {name} {fmt(top)} at step {int(held.step[best])}, "
            f"{fmt(last)} now; "
            f"step {int(held.step[tied])} is the earliest that ties with it",
            Action.NOTE,
            Confidence.LOW,
            Onset(int(held.step[best]), int(held.step[min(best + 1, held.step.size - 1)])),
            (
                Evidence(
                    f"held-out/{name}",
                    f"held-out {name} is {fmt(last)} at step {int(held.step[-1])}, {behind:.1f} standard errors below "
                    f"its "
                    f"{fmt(top)} at step {int(held.step[best])} (limit {limit})",
                    behind,
                    "standard errors",
                    (int(held.step[best]), int(held.step[-1])),
                    limit,
                    ">",
                    top,
                ),
            ),
        )
    )


CHECK = Check(
    id="H003",
    name="best-checkpoint-passed",
    family=Family.HELD_OUT,
    fault="An earlier checkpoint has a better held-out score than the current one.",
    why="Checkpoints are chosen on held-out scores alone. The highest of many noisy scores is partly luck, so the "
    "earliest one that ties with it is the better choice.",
    needs=Needs(all_of=("held-out",), rows=3),
    thresholds=(
        Threshold(
            "standard_errors", 1.0, "of the difference", SourceKind.MEASURED, "docs/measurements.md: rollback choice"
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(Remedy("Keep the earliest checkpoint that ties with the best held-out score", "", ""),),
            verify=(Verify("the next evaluations do not fall further", "held-out", "not falling", None, 100),),
        )
    },
    look_alikes=(LookAlike("the last score is within noise of the best", "less than one standard error below it"),),
    sources=("docs/measurements.md: Rollback",),
)
