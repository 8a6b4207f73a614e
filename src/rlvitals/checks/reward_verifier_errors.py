"""R011: the verifier fails or times out on part of the rollouts."""

from __future__ import annotations

import math
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
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import now, onset_of, start
from rlvitals.view import View

METRIC = "verifier_error_frac"


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    level, first = now(view, METRIC, 20), start(view, METRIC)
    watch, act = limits["watch_share"], limits["act_share"]
    if level.mean < watch.value:
        return Clear(
            f"verifier errors are {level.mean:.1%} over the last {level.n} logged steps; limit {watch.value:.0%}"
        )
    serious = level.mean >= act.value
    limit = act if serious else watch
    return Fired(
        Finding(
            f"The verifier fails on {level.mean:.0%} of rollouts; whatever it pays for a failure is being learned",
            Action.FIX if serious else Action.WATCH,
            Confidence.HIGH if serious else Confidence.MEDIUM,
            onset_of(view, METRIC, limit.value, math.inf),
            (
                Evidence(
                    METRIC,
                    f"verifier errors and time-outs are {level.mean:.1%} of rollouts over the last {level.n} logged "
                    f"steps, "
                    f"from {first:.1%} at the start (limit {limit})",
                    level.mean,
                    "fraction",
                    level.steps,
                    limit,
                    ">=",
                    first,
                ),
            ),
        )
    )


CHECK = Check(
    id="R011",
    name="verifier-errors",
    family=Family.REWARD,
    fault="The verifier fails or times out on a part of the rollouts.",
    why="An error is not a reward of zero: scored as one it teaches the policy to avoid what makes the verifier slow, "
    "and scored as a success it teaches time-outs. Failed rollouts belong out of the group.",
    needs=Needs(all_of=(METRIC,), rows=10),
    thresholds=(
        Threshold(
            "watch_share", 0.05, "of rollouts", SourceKind.PAPER, "prime-rl documentation: errored above 5%, sustained"
        ),
        Threshold("act_share", 0.2, "of rollouts", SourceKind.MEASURED, "docs/measurements.md: verifier time-outs"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Count verifier failures by exception type and data source", "verifier", "check"),
                Remedy("Leave failed rollouts out of the group instead of scoring them", "verifier", "set"),
                Remedy("Give the verifier more time or workers if it times out", "verifier", "raise"),
            ),
            verify=(Verify("errors stay below 5%", METRIC, "<", 0.05, 50),),
            rollback=Rollback.BEFORE_ONSET,
        )
    },
    leads_to=("R001", "R002", "R006", "R010", "R014", "T001", "S001", "S009", "H001", "H002"),
    patience=2,
    look_alikes=(LookAlike("a short outage that is over", "the last 20 logged steps are judged"),),
    sources=("Why GRPO training fails: reward extraction", "docs/measurements.md: Verifier time-outs"),
)
