"""Is what a check wants to see after a fix there? `metric op value over the next steps`, on the rows after the fix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rlvitals import stats
from rlvitals.check import SourceKind, Threshold, Verify
from rlvitals.checks.common import fmt
from rlvitals.conclude import start_of
from rlvitals.record.level import AS_BEFORE, Earlier, as_before
from rlvitals.record.vitals import MIN_EVALS, Item, State, gained, held_out, waiting, well_within
from rlvitals.schema import Float64, Int64
from rlvitals.view import View

FIRST = "first "  # an operator behind it speaks of the first rows of a run
SOLVING = frozenset({"zero_variance_frac", "all_right_frac", "unique_frac", "reward_mean"})
"""What a task that is being solved moves past a limit, as a fault would: then the held-out score rises with it."""
LEARNING = frozenset({"entropy", "length_mean"})
"""What a policy that learns moves in either direction: its check says whether that became a fault."""
SCORES = ("held-out", "reward", "success")  # on a scale of their own, where no factor says what is material

MATERIAL = Threshold("material", 1.25, "times, last against first half", SourceKind.CONVENTION, "a quarter")


def statement(wanted: Verify, view: View, earlier: Earlier | None = None) -> Item:
    """Judge one statement on the rows after the fix; `earlier` holds those before it."""
    if wanted.metric.endswith("/"):
        return _family(wanted, view, earlier)
    if wanted.op.startswith(FIRST) and view.first_step > _start(view, earlier):
        return Item(wanted.text, State.NO_DATA, f"these rows begin at step {view.first_step}, not with a run")
    steps, values = _series(wanted.metric, wanted.op, view)
    needed = MIN_EVALS if wanted.metric == "held-out" else wanted.steps
    if values.size == 0:
        return Item(wanted.text, State.NO_DATA, f"{wanted.metric} is not logged after the fix")
    if values.size < needed:
        return waiting(wanted.text, int(values.size), needed)
    if wanted.op == AS_BEFORE:
        course = _course(replace(wanted, op="not falling"), steps, values, needed, view)
        return course if course.state is State.FAILS else as_before(wanted, values, view, earlier)
    if wanted.value is None and wanted.op != "finite":
        return _course(wanted, steps, values, needed, view)
    return _level(wanted, values, needed, view)


def _start(view: View, earlier: Earlier | None) -> int:
    """Return the number of a run's first step; rows that begin later do not begin with a run."""
    return start_of(view) if earlier is None else min(start_of(view), start_of(earlier.view))


def _series(metric: str, op: str, view: View) -> tuple[Int64, Float64]:
    """Return the rows of a metric; of tied groups those that are not all right, where the log tells them apart."""
    if metric == "held-out":
        held = max(held_out(view).values(), key=lambda h: h.step.size, default=None)
        return (held.step, held.score) if held is not None else (np.zeros(0, np.int64), np.zeros(0))
    steps, values = view.recent(metric)
    if _apart(metric, op, view):
        right, at = view.rows_of("all_right_frac"), view.rows_of(metric)
        keep = np.isfinite(right) & np.isfinite(at)
        return view.steps_of()[keep], np.maximum(at[keep] - right[keep], 0.0)
    return steps, values


def _level(wanted: Verify, values: Float64, needed: int, view: View) -> Item:
    """Judge where the last rows stand (the first ones where the statement speaks of them)."""
    first, op = wanted.op.startswith(FIRST), wanted.op.removeprefix(FIRST)
    part = values[:needed] if first else values[-needed:]
    level = stats.median(np.abs(part) if wanted.metric == "advantage_mean" else part)
    if op == "some >":
        level, op = float(part.max()), ">"
    holds = bool(np.isfinite(part).all()) if op == "finite" else _compare(level, op, wanted.value)
    if holds is None:
        return Item(wanted.text, State.NO_DATA, "to be judged by eye")
    limit = f"{wanted.op} {fmt(wanted.value)}" if wanted.value is not None else wanted.op
    what = "tied groups that are not all right" if _apart(wanted.metric, wanted.op, view) else wanted.metric
    where = "first" if first else "last"
    text = f"{what}: {fmt(level)} over the {where} {part.size} rows; wanted {limit}"
    state, more = (State.HOLDS, "") if holds else _or_solved(wanted, values, view)
    return Item(wanted.text, state, text + more, level, limit)


def _compare(level: float, op: str, value: float | None) -> bool | None:
    """Return whether a level lies where it should, None where nothing says so."""
    if value is None:
        return None
    return {"<": level < value, ">": level > value, "==": level == value, "!=": level != value}.get(op)


def _apart(metric: str, op: str, view: View) -> bool:
    """Return whether a statement against ties can be judged without the groups that are all right."""
    return metric == "zero_variance_frac" and op == "<" and view.count("all_right_frac") > 0


def _or_solved(wanted: Verify, values: Float64, view: View) -> tuple[State, str]:
    """Tell a limit that is passed as the task is solved from one that was never kept.

    It held in the first third of the rows, and the held-out score rises beyond its noise. Without a held-out score a
    reward that rises leaves it open: an exploit rises too.
    """
    early = values[: max(values.size // 3, 5)]
    if wanted.metric not in SOLVING or not _compare(stats.median(early), wanted.op, wanted.value):
        return State.FAILS, ""
    if why := gained(view):
        return State.HOLDS, f"; it held at first ({fmt(stats.median(early))}) and was left while {why}"
    if held_out(view):
        return State.FAILS, ""
    reward = view.recent("reward_mean")[1]
    third = reward.size // 3
    rises = third > 0 and stats.change(reward[:third], reward[-third:], z=2.6).low > 0
    if not rises:
        return State.FAILS, ""
    return State.NO_DATA, "; the reward rises: without a held-out score this may be a task that is being solved"


def _course(wanted: Verify, steps: Int64, values: Float64, needed: int, view: View) -> Item:
    """Judge a direction: a trend beyond its noise that is material too."""
    long = max(needed, 20)
    at, last = steps[-long:].astype(float), values[-long:]
    slope = stats.trend(at, last, z=2.6)
    rising, falling = (slope.rising, slope.falling) if _material(wanted.metric, last, view) else (False, False)
    holds = {"rising": rising, "not rising": not rising, "not falling": not falling}.get(wanted.op)
    if holds is None:
        return Item(wanted.text, State.NO_DATA, "to be judged by eye")
    half = max(last.size // 2, 1)
    level = stats.median(last[-half:])
    text = (
        f"{wanted.metric}: {fmt(stats.median(last[:half]))} to {fmt(level)}, first to second half of the last "
        f"{last.size} rows; wanted {wanted.op}"
    )
    why = gained(view) if not holds and wanted.metric in LEARNING and wanted.op != "rising" else ""
    text += f"; it {'falls' if falling else 'rises'} while {why}" if why else ""
    return Item(wanted.text, State.HOLDS if holds or why else State.FAILS, text, level, wanted.op)


def _material(metric: str, values: Float64, view: View) -> bool:
    """Return whether a metric moved by a share that matters; a KL that is small whatever it moved by does not."""
    if metric.startswith(SCORES) or values.size < 2:
        return True
    half = values.size // 2
    first, last = stats.median(values[:half]), stats.median(values[half:])
    if metric == "kl_ref" and well_within(abs(last), view):
        return False
    if not (first > 0 and last > 0):
        return True
    return max(first, last) >= MATERIAL.value * min(first, last)


def _family(wanted: Verify, view: View, earlier: Earlier | None) -> Item:
    """Judge a statement about every member of an open family: the worst member decides."""
    members = view.family(wanted.metric)
    if not members:
        return Item(wanted.text, State.NO_DATA, f"{wanted.metric}* is not logged after the fix")
    order = (State.FAILS, State.TOO_EARLY, State.NO_DATA, State.HOLDS)
    parts = [statement(replace(wanted, metric=name), view, earlier) for name in members[:64]]
    return min(parts, key=lambda i: order.index(i.state))
