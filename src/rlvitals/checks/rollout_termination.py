"""O003: rollouts end for other reasons than before, or because something broke."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import companions, course
from rlvitals.checks.common import fmt, onset_of, words_in
from rlvitals.view import View

PREFIX = "stop_frac/"
BROKEN = ("error", "timeout", "time_out", "crash", "abort", "exception", "fail", "unknown")
NATURAL = ("eos", "stop", "length", "budget", "max_", "done", "finish", "complet")  # these shift with learning
ROWS = 20


@dataclass(frozen=True, slots=True)
class Shift:
    """One reason: its share at the start and now, and how certain the difference is."""

    metric: str
    start: float
    now: float
    z: float
    steps: tuple[int, int]
    broken: bool


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    names = (*view.family(PREFIX), *(m for m in ("tool_failure_frac",) if view.has(m)))
    shifts = [s for s in (_shift(view, m) for m in names) if s is not None]
    broken = [s for s in shifts if s.broken and s.now > limits["broken_share"].value]
    if broken:
        return Fired(_broken(view, max(broken, key=lambda s: s.now), limits))
    moved = [s for s in shifts if not s.broken and not words_in(s.metric, NATURAL) and _certain(s, limits)]
    if moved:
        return Fired(_moved(view, max(moved, key=lambda s: abs(s.now - s.start)), limits))
    seen = ", ".join(f"{s.metric.removeprefix(PREFIX)} {fmt(s.start)} to {fmt(s.now)}" for s in shifts[:6])
    return Clear(f"reasons of ending from the start to now: {seen}; limit {limits['broken_share']}")


def _shift(view: View, metric: str) -> Shift | None:
    steps, values = view.recent(metric)
    head = view.head(metric, ROWS)
    if values.size < ROWS or view.count(metric) < 2 * ROWS:
        return None
    late = values[-ROWS:]
    found = stats.change(head, late, z=1.0)
    error = found.high - found.difference
    moved = abs(found.difference)
    z = moved / max(error, moved / course.CERTAIN) if moved > 0 else 0.0
    broken = metric == "tool_failure_frac" or words_in(metric, BROKEN)
    return Shift(metric, float(head.mean()), float(late.mean()), z, (int(steps[-ROWS]), int(steps[-1])), broken)


def _certain(shift: Shift, limits: Mapping[str, Threshold]) -> bool:
    return abs(shift.now - shift.start) > limits["drift"].value and shift.z > limits["drift_z"].value


def _broken(view: View, shift: Shift, limits: Mapping[str, Threshold]) -> Finding:
    many = limits["broken_many"]
    limit = many if shift.now > many.value else limits["broken_share"]
    text = (
        f"{shift.metric} is {fmt(shift.now)} over steps {shift.steps[0]}-{shift.steps[1]}, "
        f"{fmt(shift.start)} at the start; "
        f"limit {limit}"
    )
    first = Evidence(shift.metric, text, shift.now, "fraction", shift.steps, limit, ">", shift.start)
    onset = onset_of(view, shift.metric, limits["broken_share"].value, 1.0)
    reason = shift.metric.removeprefix(PREFIX)
    what = f"{fmt(100 * shift.now)}% of the rollouts end with {reason}, {fmt(100 * shift.start)}% at the start"
    rose = shift.now > shift.start and _certain(shift, limits)
    worse = companions.reward_fell(view)
    if limit is many and rose and worse:
        return Finding(f"{what}, and the reward fell", Action.FIX, Confidence.HIGH, onset, (first, *worse), "broken")
    return Finding(what, Action.WATCH, Confidence.MEDIUM, onset, (first,), "broken")


def _moved(view: View, shift: Shift, limits: Mapping[str, Threshold]) -> Finding:
    limit, difference = limits["drift"], shift.now - shift.start
    text = (
        f"{shift.metric} went from {fmt(shift.start)} at the start to {fmt(shift.now)} over steps "
        f"{shift.steps[0]}-{shift.steps[1]}, {fmt(shift.z)} standard errors; limit {limit}"
    )
    evidence = Evidence(shift.metric, text, abs(difference), "fraction", shift.steps, limit, ">", shift.start)
    middle = 0.5 * (shift.start + shift.now)
    bounds = (middle, np.inf) if difference > 0 else (-np.inf, middle)
    onset = onset_of(view, shift.metric, *bounds)
    what = (
        f"more rollouts end with {shift.metric.removeprefix(PREFIX)} than at the start"
        if difference > 0
        else f"fewer rollouts end with {shift.metric.removeprefix(PREFIX)} than at the start"
    )
    what = f"{what}: {fmt(shift.start)} to {fmt(shift.now)}"
    return Finding(what, Action.WATCH, Confidence.MEDIUM, onset, (evidence,), "drift")


CHECK = Check(
    id="O003",
    name="termination-drift",
    family=Family.ROLLOUT,
    fault="Rollouts end for the wrong reason, or for other reasons than before.",
    why="A crash recorded as a failure, a hang recorded as a truncation or state that leaks across resets rewards and "
    "punishes what the policy did not do. More rollouts that stop by themselves and fewer that hit the budget are "
    "part of learning; errors and timeouts are not.",
    needs=Needs(any_of=(PREFIX, "tool_failure_frac"), rows=40),
    thresholds=(
        Threshold(
            "broken_share", 0.05, "fraction", SourceKind.PAPER, "prime-rl documentation: errored rollouts above 5%"
        ),
        Threshold("broken_many", 0.2, "fraction", SourceKind.MEASURED, "docs/measurements.md: Termination reasons"),
        Threshold("drift", 0.15, "fraction", SourceKind.CONVENTION, "more than one rollout in seven"),
        Threshold("drift_z", 4, "standard errors", SourceKind.MEASURED, "docs/measurements.md: Termination reasons"),
        companions.REWARD_DROP_Z,
    ),
    judge=judge,
    patience=2,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Count the reasons of ending per task family, and read five rollouts of the one that moved",
                    "",
                    "check",
                ),
                Remedy("Replay them from their seeds: what does not reproduce is noise in the reward", "", "check"),
            ),
            verify=(Verify("the shares return to those of the start", "stop_frac/", "", None, 20),),
        ),
        "broken": Plan(
            remedies=(
                Remedy(
                    "Find the cause of the errors or timeouts in the environment or verifier log", "verifier", "check"
                ),
                Remedy("Leave errored rollouts out of the update instead of scoring them 0", "verifier", "set"),
            ),
            verify=(Verify("less than 5% of the rollouts end with an error"),),
        ),
    },
    leads_to=("R002", "R011", "R014", "L001", "L004", "S001"),
    look_alikes=(
        LookAlike(
            "More rollouts stop by themselves as the policy learns", "reasons that shift with learning are left out"
        ),
        LookAlike("A short burst of errors", "the mean of the last 20 rows falls again"),
    ),
    sources=("Why GRPO training fails: termination and reset", "docs/measurements.md: Termination reasons"),
)
