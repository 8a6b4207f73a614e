"""D007: the learning rate is zero while training goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

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
    Tally,
    Threshold,
    Verify,
    tally,
)
from rlvitals.checks.common import shift
from rlvitals.schema import Float64
from rlvitals.view import Chunk, View

DIGITS = 1e8  # a log that rounds to eight decimals or fewer holds multiples of 1 / DIGITS
STILL_ROWS = 30  # rows over which a reward that does not move says something (convention)
MIN_STREAK = 10  # rows: the last step of a decay and the first of a warm-up are zero in healthy runs


def _zero(chunk: Chunk) -> tuple[np.ndarray, np.ndarray, Float64]:
    rate = chunk.col("learning_rate")
    return np.isfinite(rate), rate == 0.0, rate


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    state: Tally = view.state
    ever = state.failed < state.tested
    configured = view.config.learning_rate
    if state.streak < MIN_STREAK:
        return Clear(
            f"the learning rate is {view.recent('learning_rate', 1)[1][-1]:.3g} at step {view.step}"
            if state.streak == 0
            else f"the learning rate is 0 in the last {state.streak} rows only; {MIN_STREAK} are needed"
        )
    since = state.streak_from if state.streak_from is not None else view.first_seen("learning_rate")
    evidence = Evidence(
        metric="learning_rate",
        text=f"the learning rate is exactly 0 in the last {state.streak} rows, since step {since}"
        + (f"; the highest before was {view.extremes('learning_rate')[2]:.3g}" if ever else ""),
        observed=0.0,
        unit="1/step",
        steps=(since, view.step),
        threshold=limits["learning_rate"],
        comparison="==",
        before=view.extremes("learning_rate")[2] if ever else None,
    )
    onset = Onset(since, since)
    if ever:
        summary = f"the learning rate is 0 since step {since}: the schedule has ended and later steps change nothing"
        return Fired(Finding(summary, Action.ADJUST, Confidence.HIGH, onset, (evidence,), "schedule ended"))
    if configured == 0:
        evidence = replace(evidence, text=evidence.text + "; it is configured as 0")
        summary = "the learning rate is configured as 0: nothing is trained"
        return Fired(Finding(summary, Action.FIX, Confidence.HIGH, onset, (evidence,)))
    if configured is None and _unrounded(view) and _stands_still(view):
        evidence = replace(evidence, text=evidence.text + "; this log rounds nothing, and neither reward nor KL moves")
        summary = "the learning rate has been exactly 0 since the first step: nothing is trained"
        return Fired(Finding(summary, Action.FIX, Confidence.MEDIUM, onset, (evidence,)))
    return _never(view, configured)


def _unrounded(view: View) -> bool:
    """True where other series carry more digits than any rounded log: then a printed 0 is a 0."""
    for metric in ("grad_norm", "loss", "entropy"):
        values = view.recent(metric)[1] * DIGITS
        if values.size >= MIN_STREAK:
            return bool((np.abs(values - np.round(values)) > 1e-3).mean() >= 0.5)
    return False


def _stands_still(view: View) -> bool:
    """True where nothing shows a policy that changes: a KL of exactly 0 or none, and a reward that has not moved."""
    moved = shift(view, "reward_mean", z=2.0)
    still = moved.rows >= STILL_ROWS and moved.low <= 0 <= moved.high
    return still and view.has("grad_norm") and not view.count("kl_ref")  # a constant zero counts as none


def _never(view: View, configured: float | None) -> Outcome:
    """Answer for a rate that was never printed as anything but 0: rounding, unless nothing moves."""
    if configured is not None and configured > 0:
        return Clear(f"printed as 0 throughout, which is rounding: {configured:.3g} is configured")
    if view.has("kl_ref") and view.extremes("kl_ref")[2] > view.extremes("kl_ref")[0]:
        return Clear(f"printed as 0 throughout, yet the KL to the reference moves to {view.extremes('kl_ref')[2]:.3g}")
    return NoData(("learning_rate",), "every value is printed as 0; three decimals hide a rate of 1e-6")


CHECK = Check(
    id="D007",
    name="learning-rate-zero",
    family=Family.DATA,
    fault="The learning rate is zero while training goes on.",
    why="An optimizer step is proportional to the learning rate; at zero every further step costs rollouts and changes "
    "nothing. It happens when the schedule is shorter than the run, or when a resume restores an ended schedule.",
    needs=Needs(all_of=("learning_rate",), rows=MIN_STREAK),
    thresholds=(
        Threshold("learning_rate", 0, "1/step", SourceKind.DEFINITION, "the update is proportional to the rate"),
    ),
    judge=judge,
    fold=tally(_zero, needs=("learning_rate",)),
    plans={
        "": Plan(
            remedies=(Remedy("Set a learning rate above 0", "learning_rate", "raise"),),
            verify=(Verify("the learning rate is above 0", "learning_rate", ">", 0.0, 5),),
        ),
        "schedule ended": Plan(
            remedies=(
                Remedy("Stop here, or restart the schedule with the real number of steps", "lr_schedule", "set"),
                Remedy(
                    "After a resume, check that the scheduler was built with the new total", "planned_steps", "check"
                ),
            ),
            verify=(Verify("the learning rate is above 0", "learning_rate", ">", 0.0, 5),),
        ),
    },
    leads_to=("U008", "R010"),
    look_alikes=(
        LookAlike("A console prints three decimals, so 1e-6 reads 0.000", "the configured rate is above 0"),
        LookAlike("The first step of a warm-up, the last step of a decay", "fewer than 10 rows are zero"),
    ),
    sources=("docs/false-alarms.md: 28", "verl#2088"),
)
