"""Is a metric back at its level from before a fault? The last rows after the fix against the last ones before it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlvitals import stats
from rlvitals.check import Onset, SourceKind, Threshold, Verify
from rlvitals.checks.common import fmt
from rlvitals.checks.scale import reward_scale
from rlvitals.record.vitals import SURE_Z, Item, State
from rlvitals.schema import Float64
from rlvitals.view import View

AS_BEFORE = "as before"  # the operator of a statement that asks for it
ROWS = 20  # before the fault that its level is taken from
LEAST_ROWS = 5  # that tell a level and its noise

LOST = Threshold("lost", 0.25, "of the height above the floor", SourceKind.CONVENTION, "a quarter")


@dataclass(frozen=True, slots=True)
class Earlier:
    """The run before the fix, and when the fault that was mended began in it."""

    view: View
    onset: Onset


def as_before(wanted: Verify, values: Float64, view: View, earlier: Earlier | None) -> Item:
    """Judge whether the last rows after a fix stand where the metric stood before its fault, or are on their way.

    A run that was started anew is held against the steps that it has reached.
    """
    before, until = _before(wanted.metric, earlier, view.step) if earlier is not None else (np.zeros(0), -1)
    if earlier is None or before.size < LEAST_ROWS:
        few = f"{before.size} rows of {wanted.metric} from before the fault; {LEAST_ROWS} are needed to compare with"
        return Item(wanted.text, State.NO_DATA, few)
    moved = stats.change(before, values[-wanted.steps :], z=SURE_Z)
    least = moved.early - LOST.value * max(moved.early - _floor(wanted.metric, earlier.view), 0.0)
    text = (
        f"{wanted.metric}: {fmt(moved.late)} over the last {min(wanted.steps, values.size)} rows, {fmt(moved.early)} "
        f"before the fault, up to step {until}; at most {LOST} may be lost, so at least {fmt(least)}"
    )
    if moved.late >= least:
        return Item(wanted.text, State.HOLDS, text, moved.late, wanted.op)
    if not moved.high < 0:
        return Item(wanted.text, State.NO_DATA, f"{text}; the rows are too noisy to tell it", moved.late, wanted.op)
    last = values[-max(wanted.steps, ROWS) :]
    slope = stats.trend(np.arange(last.size, dtype=float), last, z=SURE_Z)
    if not slope.rising:
        return Item(wanted.text, State.FAILS, text, moved.late, wanted.op)
    more = max(math.ceil((least - moved.late) / slope.slope), 1)
    text += f"; it rises, {more} more rows at this pace"
    return Item(wanted.text, State.TOO_EARLY, text, moved.late, wanted.op, more)


def _before(metric: str, earlier: Earlier, reached: int) -> tuple[Float64, int]:
    """Return the last values before the fault, of no later step than `reached`, and the step of the newest."""
    onset, trace = earlier.onset, earlier.view.trace(metric)
    first_bad = onset.first + (onset.first < onset.last)  # an interval begins with the last row that was well
    there = int(np.count_nonzero(trace.last < min(first_bad, reached + 1)))
    rows = np.cumsum(trace.count[:there][::-1])
    used = min(int(np.searchsorted(rows, ROWS)) + 1, there)
    return trace.value[there - used : there], int(trace.last[there - 1]) if there else -1


def _floor(metric: str, view: View) -> float:
    if metric != "reward_mean":
        return 0.0
    scale = reward_scale(view)
    return scale.low if scale.known else min(scale.low, 0.0)  # step means do not show how low a reward can be
