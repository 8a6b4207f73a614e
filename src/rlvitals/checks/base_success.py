"""How often a policy fails altogether, and whether a task too hard so far may still take off. Nothing here decides."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlvitals import stats
from rlvitals.check import SourceKind, Threshold
from rlvitals.checks.common import RECENT
from rlvitals.checks.scale import reward_scale
from rlvitals.view import View

MIN_ROWS = 6
FAILED_ROWS = Threshold(
    "failed_rows", 0.7, "of logged steps", SourceKind.MEASURED, "docs/measurements.md: base success near zero"
)
SUCCESS_RATE = Threshold(
    "success_rate", 0.02, "of the reward range", SourceKind.MEASURED, "docs/measurements.md: base success near zero"
)
JUDGEABLE = Threshold(
    "judgeable_share",
    0.9,
    "of completions",
    SourceKind.CONVENTION,
    "a cut or unread answer says nothing of the task",
)
BLOCK = 10  # rows of a mean (convention)
RISING = 10  # logged learning rates that rise one after another (convention)
SLOW_STEPS = 60  # a run with a success now and then may take off until then (docs/measurements.md: Hard healthy runs)


@dataclass(frozen=True, slots=True)
class Success:
    metric: str
    floor: float
    top: float
    head_failed: float  # share of the first rows at the floor
    failed: float  # share of the recent rows at the floor
    rate: float  # recent mean, as a share of the range
    rows: int


def measure(view: View) -> Success | None:
    """Return how often the policy fails altogether, None when nothing says what failing is."""
    return view.cached("base_success.measure", lambda: _measure(view))


def _measure(view: View) -> Success | None:
    metric = "success_frac" if view.has("success_frac", MIN_ROWS) else "reward_mean"
    if not view.has(metric, MIN_ROWS):
        return None
    if metric == "success_frac":
        floor, top = 0.0, 1.0
    else:
        scale = reward_scale(view)
        floor, top = scale.low, scale.high
        lowest, _, highest, _ = view.extremes(metric)
        if lowest == highest:
            floor, top = lowest, (view.config.reward_max if view.config.reward_max is not None else lowest + 1.0)
            if floor > 0 and floor != view.config.reward_min:
                return None  # a constant above zero says nothing of failure: R001
        elif view.config.reward_min is None:
            floor = lowest
        if not scale.known and floor == 0.0 and highest <= 1.0:
            top = 1.0  # a reward between 0 and 1 is read as a share of full marks
    near = 1e-9 * max(1.0, abs(floor))
    head, recent = view.head(metric), view.recent(metric)[1][-RECENT:]
    span = top - floor
    rate = (float(recent.mean()) - floor) / span if span > 0 and recent.size else math.nan
    return Success(
        metric,
        floor,
        top,
        float((np.abs(head - floor) <= near).mean()),
        float((np.abs(recent - floor) <= near).mean()) if recent.size else math.nan,
        rate,
        view.count(metric),
    )


def nearly_never(got: Success) -> bool:
    """True when the policy failed in nearly every row, the first ones and the recent ones; false for NaN."""
    return min(got.failed, got.head_failed) >= FAILED_ROWS.value and got.rate <= SUCCESS_RATE.value


def may_take_off(view: View) -> bool:
    """True when the policy failed nearly always from the first step on, but not always, in few steps or in warm-up.

    Most groups are tied then, the reward is the same number for many steps, and only other terms move the weights: all
    of that ends where the few successes are reinforced, as it does in some healthy runs.
    """
    return view.cached("base_success.may_take_off", lambda: _may_take_off(view))


def _may_take_off(view: View) -> bool:
    got = measure(view)
    if got is None or not (_early(view) or _warming_up(view)):
        return False
    low, _, high, _ = view.extremes(got.metric)
    begin = (float(view.head(got.metric).mean()) - got.floor) / (got.top - got.floor)
    return low < high and begin <= SUCCESS_RATE.value and not _lost(view, got)


def _lost(view: View, got: Success) -> bool:
    """True when the policy had learned to solve some and no longer does: ten rows at half of the best ten, or less."""
    values = (view.recent(got.metric)[1] - got.floor) / (got.top - got.floor)
    if values.size < BLOCK:
        return False
    means = stats.running_means(values, BLOCK)
    best = float(means.max())
    return best > SUCCESS_RATE.value and float(means[-1]) < best / 2


def _early(view: View) -> bool:
    return view.step - view.first_step + 1 < SLOW_STEPS


def _warming_up(view: View) -> bool:
    """True while the learning rate still rises from one logged row to the next, as it has since the first one."""
    rate = view.recent("learning_rate")[1][-RISING:]
    return (
        rate.size == RISING and bool((np.diff(rate) > 0).all()) and float(rate[-1]) >= view.extremes("learning_rate")[2]
    )
