"""D002: the log goes back to an earlier step."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rlvitals import stats
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
    Onset,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.schema import Segment
from rlvitals.view import View

OTHER = {"aborted start": "an aborted start", "other run in the same file": "another run in the same file"}
SIDE = 20  # logged rewards on each side of the resume step that are compared
MIN_SIDE = 10  # fewer than this on either side says nothing


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    rewinds = [s for s in view.segments if s.reason == "rewind" and s.resumed_at <= view.step]
    others = [s for s in view.segments if s.reason != "rewind" and s.resumed_at <= view.step]
    if not rewinds and not others:
        return Clear(f"steps only go up, from {view.first_step} to {view.step}")
    found = rewinds or others
    where = ", ".join(f"{s.last_step} to {s.resumed_at}" for s in found[:4]) + (" ..." if len(found) > 4 else "")
    what = (
        "the run was resumed from an earlier step"
        if rewinds
        else f"rows of {OTHER.get(others[0].reason, others[0].reason)} were set aside"
    )
    restarts = Evidence(
        metric="step",
        text=f"the step goes back {_times(len(found))}: {where}; {sum(s.rows for s in found)} rows were replaced",
        observed=float(len(found)),
        unit="rewinds",
        steps=(min(s.resumed_at for s in found), view.step),
        threshold=limits["rewinds"],
        comparison=">",
    )
    last = rewinds[-1] if rewinds else others[-1]
    jump, before, after = _jump(view, last)
    onset = Onset(last.resumed_at, last.resumed_at)
    if math.isfinite(jump) and jump > limits["resume_jump"].value:
        evidence = Evidence(
            metric="reward_mean",
            text=f"the reward steps from {before:.4g} to {after:.4g} at the resume step {last.resumed_at}, "
            f"z {jump:.1f}; limit {limits['resume_jump']}",
            observed=jump,
            unit="z",
            steps=(last.resumed_at, view.step),
            threshold=limits["resume_jump"],
            comparison=">",
            before=before,
        )
        summary = f"the reward is discontinuous where the run was resumed at step {last.resumed_at}"
        return Fired(Finding(summary, Action.WATCH, Confidence.MEDIUM, onset, (restarts, evidence), "discontinuous"))
    if len(rewinds) > limits["restarts"].value:
        summary = f"the run was restarted {len(rewinds)} times and repeats steps each time"
        return Fired(Finding(summary, Action.WATCH, Confidence.HIGH, onset, (restarts,), "restarts"))
    return Fired(
        Finding(f"{what} ({where}); only the later rows count", Action.NOTE, Confidence.HIGH, onset, (restarts,))
    )


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def _jump(view: View, segment: Segment) -> tuple[float, float, float]:
    """Return the z of the reward's step at the resume, and the two means; NaN with too few rows or without a step.

    A slope that goes on across the resume is no step: the sides must not overlap and must be flat beside the jump.
    """
    steps, values = view.recent("reward_mean")
    early = values[steps < segment.resumed_at][-SIDE:]
    late = values[steps >= segment.resumed_at][:SIDE]
    found = stats.change(early, late, z=1.0)
    none = (math.nan, found.early, found.late)
    if early.size < MIN_SIDE or late.size < MIN_SIDE or not (early.max() < late.min() or late.max() < early.min()):
        return none
    slopes = [abs(stats.theil_sen(np.arange(side.size, dtype=float), side)) * side.size for side in (early, late)]
    if max(slopes) > 0.5 * abs(found.difference):
        return none
    half = max(0.5 * (found.high - found.low), 1e-12)
    return abs(found.difference) / half, found.early, found.late


CHECK = Check(
    id="D002",
    name="step-rewind",
    family=Family.DATA,
    fault="The log goes back to an earlier step: the run was resumed, restarted, or two runs share one file.",
    why="Rows after the resume point were trained twice and only the later ones belong to the weights. A resume "
    "can also "
    "load the wrong weights, a fresh optimizer or repeat data, which shows as a step in the curves and in nothing "
    "else.",
    needs=Needs(),
    thresholds=(
        Threshold("rewinds", 0, "rewinds", SourceKind.DEFINITION, "the steps of one run only go up"),
        Threshold("restarts", 2, "rewinds", SourceKind.CONVENTION, "more than two restarts are worth asking about"),
        Threshold(
            "resume_jump", 4, "z", SourceKind.MEASURED, "docs/measurements.md: Change of level under AR(1) noise"
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(Remedy("Nothing to do: the replaced rows are set aside and shown as segments"),),
            verify=(Verify("the steps after the resume only go up"),),
        ),
        "discontinuous": Plan(
            remedies=(
                Remedy(
                    "Check that the resume loaded weights, optimizer state, step count and data position", "", "check"
                ),
                Remedy("Check that reward, environment and sampler settings are the same on both sides", "", "check"),
            ),
            verify=(
                Verify("the reward continues at the level before the resume", "reward_mean", "as before", None, 20),
            ),
        ),
        "restarts": Plan(
            remedies=(
                Remedy("Find why the process ends (memory, time limit, crash) before judging the curves", "", "check"),
            ),
            verify=(Verify("no further rewind over the next 100 steps", "", "", None, 100),),
        ),
    },
    look_alikes=(
        LookAlike(
            "The first rows of an aborted start stand before the real run",
            "the step goes back once, to the first step, and the earlier rows are few",
        ),
    ),
    sources=("docs/evidence.md: What no curve shows", "open-instruct PR#1627", "slime#1695"),
)
