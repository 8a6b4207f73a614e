"""Y001: sampler and trainer agree until the weights change for the first time (or at some later step), then do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

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
    Fold,
    LookAlike,
    Needs,
    Onset,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import companions, course, sampler_gap
from rlvitals.checks.common import fmt
from rlvitals.store import HEAD
from rlvitals.view import Chunk, View

SURE_ROWS = 3  # rows after the first update from which the plain factor is enough
FEW_FACTOR = 1.6  # times the factor and twice the level, with fewer rows
EARLY = 5  # rows right after the first update that tell a jump from a ramp
BASE_ROWS = 40  # rows before a later jump
PERIOD_ROWS = 20  # rows that stand for now: a sampler that gets the weights every few steps is fresh in some of them


@dataclass(frozen=True, slots=True)
class State:
    """For each gap metric: values logged before the first weight update can show, the largest, the last step."""

    before: tuple[tuple[str, int, float, int], ...] = ()
    closed: bool = False


def _step(state: State, chunk: Chunk) -> State:
    if state.closed:
        return state
    rate = chunk.col("learning_rate")
    columns = {m: chunk.col(m) for m in sampler_gap.GAPS}
    known = {m: (n, top, step) for m, n, top, step in state.before}
    for i in range(chunk.steps.size):
        seen = [m for m, c in columns.items() if np.isfinite(c[i])]
        for metric in seen:
            n, top, _ = known.get(metric, (0, 0.0, -1))
            known[metric] = (n + 1, max(top, abs(float(columns[metric][i]))), int(chunk.steps[i]))
        # the update of a row shows in the next one; without a learning rate the first row alone is before
        if (seen and not np.isfinite(rate[i])) or rate[i] > 0:
            return State(tuple((m, *v) for m, v in known.items()), True)
    return replace(state, before=tuple((m, *v) for m, v in known.items()))


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    state: State = view.state
    seen = []
    for metric in sampler_gap.logged(view, 2):
        found = None
        if view.first_step <= 1 and state.closed:
            found = _at_first_update(view, metric, state, limits)
        found = found or _later(view, metric, limits)
        if found is not None:
            return Fired(found)
        level = course.level(view, metric)
        seen.append(f"{metric} is {fmt(level.now)}, {fmt(level.start)} at the start, limit {limits[metric]}")
    return Clear(f"no jump: {'; '.join(seen)}; a jump is {limits['factor']}")


def _at_first_update(view: View, metric: str, state: State, limits: Mapping[str, Threshold]) -> Finding | None:
    n, top, last_before = next(((n, t, s) for m, n, t, s in state.before if m == metric), (0, 0.0, -1))
    head = np.abs(view.head(metric))
    if n == 0 or n >= HEAD - EARLY or top == 0.0:
        return None
    after = head[n : n + EARLY]
    if after.size == 0:
        return None
    few = view.count(metric) - n < SURE_ROWS
    steps, recent = view.recent(metric, PERIOD_ROWS)
    keep = steps > last_before
    now = stats.median(np.abs(recent[keep]))
    factor = sampler_gap.scaled(metric, limits["factor"].value * (FEW_FACTOR if few else 1.0))
    bound = limits[metric].value * (2.0 if few else 1.0)
    if not (now > factor * top and stats.median(after) > factor * top and now > bound):
        return None
    where = (int(steps[keep][0]), int(steps[-1]))
    text = (
        f"{metric} was at most {fmt(top)} {limits[metric].unit} up to the first weight update and is "
        f"{fmt(now)} after it "
        f"(steps {where[0]}-{where[1]}), {fmt(now / top)} times; limit {limits['factor']}"
    )
    jumped = Evidence(metric, text, now / top, "times", where, limits["factor"], ">", top)
    onset = Onset(last_before, last_before + max(int(course.row_spacing(view, metric)), 1))
    what = f"the sampler did not receive the first weight update: {metric} went from {fmt(top)} to {fmt(now)}"
    if sampler_gap.expected_lag(view):
        text = f"{what}; rollouts are older than the policy on purpose, which explains part of it"
        return Finding(text, Action.WATCH, Confidence.LOW, onset, (jumped,), "first update")
    return Finding(
        what, Action.FIX, Confidence.HIGH, onset, (jumped, _level(metric, now, where, limits)), "first update"
    )


def _level(metric: str, now: float, where: tuple[int, int], limits: Mapping[str, Threshold]) -> Evidence:
    limit = limits[metric]
    return Evidence(metric, f"{metric} is {fmt(now)}; limit {limit}", now, limit.unit, where, limit, ">")


def _later(view: View, metric: str, limits: Mapping[str, Threshold]) -> Finding | None:
    factor = sampler_gap.scaled(metric, limits["factor"].value)
    found = course.jump(view, metric, base_rows=BASE_ROWS, skip_rows=EARLY, factor=factor)
    if found is None or not found.now > limits[metric].value:
        return None
    where = (found.first, found.last)
    text = (
        f"{metric} jumped from {fmt(found.before)} to {fmt(found.now)}, {fmt(found.ratio)} times, between steps "
        f"{found.first} and {found.last}; limit {limits['factor']}"
    )
    jumped = Evidence(metric, text, found.ratio, "times", where, limits["factor"], ">", found.before)
    others = (*sampler_gap.second_signals(view, limits), *companions.worse(view))
    course_text = f"{metric} went from {fmt(found.before)} to {fmt(found.now)}"
    what = f"sampler and trainer disagree since {Onset(*where)}: {course_text}"
    action = Action.FIX if others else Action.WATCH
    confidence = Confidence.HIGH if others else Confidence.MEDIUM
    return Finding(what, action, confidence, Onset(*where), (jumped, *others), "later")


CHECK = Check(
    id="Y001",
    name="logprob-gap-jump",
    family=Family.SYNC,
    fault="From one step on, sampler and trainer no longer hold the same policy.",
    why="Sampler and trainer compute slightly different log-probabilities for the same tokens; that "
    "numerical gap is the "
    "same after a weight update as before. A jump at the first update means that the sampler did not receive it: all "
    "rollouts come from the base weights while reward, loss and entropy look normal.",
    needs=Needs(any_of=sampler_gap.GAPS, rows=2),
    thresholds=(
        Threshold(
            "factor",
            5,
            "times the level before",
            SourceKind.MEASURED,
            "docs/measurements.md: Sampler and trainer numerics (healthy 0.007 to 0.018, not synchronised 0.201)",
        ),
        *sampler_gap.LEVELS,
        sampler_gap.CORRELATION,
        sampler_gap.WEIGHTS_ESS,
    ),
    judge=judge,
    fold=Fold(State(), _step),
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Compare a fingerprint of one weight in sampler and trainer before and after a sync",
                    "sync",
                    "check",
                ),
                Remedy("Run a few steps with the sampler's sleep mode or adapter merge off", "sync", ""),
                Remedy("Fix the weight transfer and resume from the checkpoint before the jump", "sync", "set"),
            ),
            verify=(Verify("the gap after the first update is as before it", "logprob_gap_mean", "<", 0.05, 20),),
            rollback=Rollback.NONE,
        )
    },
    leads_to=("Y002", "Y003", "U005", "U006", "R010", "R014", "H002", "K001"),
    look_alikes=(
        LookAlike("A gap that is large from the first row on", "level, not jump: Y002"),
        LookAlike("The largest gap of a step reaches 1", "the maximum is heavy-tailed: only means are judged"),
        LookAlike("Asynchronous training: rollouts are older on purpose", "version lag of 1 or more is logged: watch"),
    ),
    sources=("trl#5312", "docs/evidence.md: What no curve shows", "docs/measurements.md: Sampler and trainer numerics"),
)
