"""Where to resume: the newest complete checkpoint before the root cause, or the current one with a knob changed."""

from __future__ import annotations

import math

import numpy as np

from rlvitals.check import Family, Onset, Plan, Rollback, Verdict
from rlvitals.checks.held import LEAST_ENDS, errors
from rlvitals.diagnosis import Diagnosis, RollbackTarget
from rlvitals.schema import Event, EventKind
from rlvitals.stats import change_of, moments
from rlvitals.store import HEAD
from rlvitals.view import Held, View

NOTHING = RollbackTarget(Rollback.NONE, None, "", "no finding asks for it")
LITTLE = 64  # logged rows that nobody misses if they taught nothing: twice a run's own start (convention)
GAIN_Z = 1.64  # one-sided: what is kept must have been learnt with 95% (convention)
SAME = 1e-9  # relative: means of blocks of one number differ by rounding only (convention)
LATE = 2.0  # spacings of the log: one that starts after more goes on with an older run (convention)
SURE = 2.0  # standard errors of a difference between two held-out scores, as for damage in the fault lab (convention)
OF_THE_LOG = (Family.ENTROPY, Family.UPDATE, Family.LEASH)  # what a trainer's step log shows and rollouts do not


def unseen(diagnosis: Diagnosis) -> str:
    """Return why it cannot be said that no rollback is needed, "" where it can or one is named.

    No finding is no reason to stay where nothing could be looked at: a dump of rollouts alone shows neither entropy nor
    update nor KL, and a run too short to judge shows no trend.
    """
    if diagnosis.rollback.kind is not Rollback.NONE:
        return ""
    if no_step_log(diagnosis):
        return "entropy, KL to the reference and the update are not in these files; a trainer's step log has them"
    if diagnosis.verdict is Verdict.CANNOT_SAY:
        return diagnosis.headline.removeprefix("Cannot say: ").rstrip(".")
    return ""


def no_step_log(diagnosis: Diagnosis) -> bool:
    """Return whether nothing was seen of what a trainer logs per step and rollouts do not hold."""
    return {family.label for family in OF_THE_LOG} <= set(diagnosis.coverage.blind_families)


def rollback_target(plan: Plan, onset: Onset, view: View, what: str = "the root cause") -> RollbackTarget:
    """Return the target for one fault, from its plan, its onset interval and what the run directory holds.

    `what` names the fault in the reason.
    """
    if plan.rollback is Rollback.NONE:
        return RollbackTarget(Rollback.NONE, None, "", "the fix needs no older weights")
    checkpoints = sorted(
        (e for e in view.events if e.kind is EventKind.CHECKPOINT and e.complete and e.step is not None),
        key=lambda e: e.step or 0,
    )
    if plan.rollback is Rollback.CURRENT:
        return _current(checkpoints)
    limit, why = onset.first - 1, f"{what} began at {onset}"  # the last step that is certainly before it
    if not gained(view, limit):
        return _start(checkpoints, view, why)
    before = [c for c in checkpoints if (c.step or 0) <= _last_good(limit, view)]
    tied = _earliest_tied_step(limit, view) if not before else None
    if tied is not None:
        known = "no checkpoint is known" if not checkpoints else "no complete checkpoint on disk is as early"
        where = f"{known}; use the one nearest to the earliest held-out score that ties with the best"
        return RollbackTarget(Rollback.BEFORE_ONSET, tied, "", f"{why}; {where}")
    if not before:
        where = (
            f"no complete checkpoint on disk before it (the oldest is step {checkpoints[0].step})"
            if checkpoints
            else "no checkpoint is known; use the newest one saved up to that step"
        )
        return RollbackTarget(Rollback.BEFORE_ONSET, max(limit, 0), "", f"{why}; {where}")
    best = _earliest_tied(before, view)
    chosen, reason = (
        (best, f"{why}; the earliest within one paired standard error of the best held-out score")
        if (best is not None)
        else (before[-1], f"{why}; the newest complete checkpoint before that")
    )
    return RollbackTarget(Rollback.BEFORE_ONSET, chosen.step, chosen.path, reason)


def gained(view: View, limit: int) -> bool:
    """Return whether anything was learnt up to a step that is worth keeping.

    Within LITTLE rows a gain must show, in the reward or in a held-out score. Where it doesn't, the fault may have been
    there from the first step on, as a wrong setting is, and little is lost by starting again. A log without either, or
    of more rows, or kept too coarsely to show a gain so early, is given the benefit of the doubt.
    """
    if not view.evals and not view.has("reward_mean"):
        return True
    rows = _rows(view, limit)
    if not view.has("reward_mean"):
        return rows > LITTLE or _any_held_gain(view, limit)
    trace = view.trace("reward_mean")
    points = trace.value[trace.last <= limit]  # not first: a block across the limit holds rows of the fault
    blocks = bool(np.any(trace.count > 1))
    if blocks:
        logged = rows * view.count("reward_mean") // max(view.rows, 1)
        exact = view.head("reward_mean", logged)  # the first rows, which are kept as they are
        points = exact if logged <= HEAD else np.concatenate([exact, points])
    if points.size and np.ptp(points) > SAME * np.max(np.abs(points)):
        if rows > LITTLE or (blocks and rows > HEAD):
            return True
        if points.size >= 2 * LEAST_ENDS:
            part = max(points.size // 3, LEAST_ENDS)
            if change_of(moments(points[:part]), moments(points[-part:]), z=GAIN_Z).low > 0:
                return True
    return _any_held_gain(view, limit)


def _rows(view: View, limit: int) -> int:
    """Return how many rows were logged up to a step; before the rows that are kept exactly, as if evenly spaced."""
    steps = view.steps_of()
    inside, earlier = int(np.count_nonzero(steps <= limit)), view.rows - steps.size
    if inside or not earlier:
        return earlier + inside
    share = (limit + 1 - view.first_step) / max(int(steps[0]) - view.first_step, 1)
    return int(earlier * min(max(share, 0.0), 1.0))


def _any_held_gain(view: View, limit: int) -> bool:
    return any(_held_gain(held, limit) for held in view.evals.values())


def _held_gain(held: Held, limit: int) -> bool:
    """Return True when a held-out score up to a step surely lies above the first one."""
    error, inside = errors(held), held.step <= limit
    if np.count_nonzero(inside) < 2:
        return False
    score, error = held.score[inside], error[inside]
    best = int(np.argmax(score))
    return bool(score[best] - score[0] > SURE * math.hypot(float(error[best]), float(error[0])))


def _start(checkpoints: list[Event], view: View, why: str) -> RollbackTarget:
    """Return the start of the run, or of this log where it goes on with an older run, of which it saw nothing."""
    resumed = _resumed(view)
    start = max(view.first_step - 1, 0) if resumed else 0
    where = (
        f"and neither the reward nor a held-out score had surely gained since step {view.first_step}, where this log "
        "starts: go back to there; what was learnt before is not in this log"
        if resumed
        else "and neither the reward nor a held-out score had surely gained by then: start again"
    )
    last = next((c for c in reversed(checkpoints) if (c.step or 0) <= start), None)
    if last is None:
        return RollbackTarget(Rollback.BEFORE_ONSET, start, "", f"{why}, {where}")
    return RollbackTarget(Rollback.BEFORE_ONSET, last.step, last.path, f"{why}, {where}")


def _resumed(view: View) -> bool:
    """Return whether the log starts later than its own step spacing explains (every tenth step: the first is 10)."""
    steps = view.steps_of()
    spacing = float(np.median(np.diff(steps))) if steps.size > 1 else 1.0
    return view.first_step > max(LATE * spacing, 1.0)


def _last_good(limit: int, view: View) -> int:
    """Return the last step up to `limit` at which no held-out score is surely below the best one until then."""
    held = _longest(view)
    if held is None:
        return limit
    error, inside = errors(held), np.flatnonzero(held.step <= limit)
    if inside.size < 2 or not np.isfinite(error[inside]).all():
        return limit
    best = int(inside[np.argmax(held.score[inside])])
    apart = SURE * np.hypot(error[best], error[inside])
    low = inside[(held.score[best] - held.score[inside] > apart) & (inside > best)]
    return int(held.step[low[0] - 1]) if low.size else limit


def _longest(view: View) -> Held | None:
    return max(view.evals.values(), key=lambda h: h.step.size, default=None)


def _current(checkpoints: list[Event]) -> RollbackTarget:
    reason = "the current weights are usually salvageable: resume with the changed setting"
    if not checkpoints:
        return RollbackTarget(Rollback.CURRENT, None, "", reason)
    newest = checkpoints[-1]
    return RollbackTarget(Rollback.CURRENT, newest.step, newest.path, reason)


def _earliest_tied_step(limit: int, view: View) -> int | None:
    """Return the step of the earliest held-out score up to `limit` within one standard error of the best there."""
    held = _longest(view)
    if held is None:
        return None
    error, before = errors(held), held.step <= limit
    if np.count_nonzero(before) < 2 or not np.isfinite(error[before]).all():
        return None
    score = np.where(before, held.score, -np.inf)
    best = int(np.argmax(score))
    return int(held.step[np.flatnonzero(score >= score[best] - error[best])[0]])


def _earliest_tied(checkpoints: list[Event], view: View) -> Event | None:
    """Return the earliest checkpoint whose held-out score ties with the best one's, where held-out scores exist.

    Best-of-many selection overstates a maximum; the earliest tied one lies before the true onset in 92% of simulated
    runs against 77% for the maximum (docs/measurements.md, "Rollback").
    """
    held = _longest(view)
    if held is None or held.step.size < 2:
        return None
    error = errors(held)
    scored = [(c, at) for c in checkpoints if (at := _nearest(held, c.step or 0)) is not None]
    if not scored:
        return None
    best = max((at for _, at in scored), key=lambda at: float(held.score[at]))
    slack = float(error[best]) if math.isfinite(error[best]) else 0.0  # where no error is known the best stands alone
    return next((c for c, at in scored if held.score[at] >= held.score[best] - slack), None)


def _nearest(held: Held, step: int) -> int | None:
    """Return the index of the evaluation nearest to a checkpoint, None where none is near."""
    at = int(np.argmin(np.abs(held.step - step)))
    gap = float(np.median(np.diff(held.step))) if held.step.size > 1 else 0.0
    near = abs(int(held.step[at]) - step) <= gap / 2
    return at if near and math.isfinite(held.score[at]) else None
