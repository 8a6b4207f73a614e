"""A budget that cut many completions from the first steps on, and a reward that stands still beside it.

Nothing here decides; L001 compares the numbers with its limits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlvitals import stats
from rlvitals.checks.common import FIRST, now, token_budget
from rlvitals.checks.scale import reward_scale
from rlvitals.view import View

ROWS, LAST = 100, 80  # logged rewards needed, and the last ones that must stand still: before them is the first gain
BOUND_Z = 1.96  # normal quantile of a two-sided 0.05
PRESSED_ROWS = 20  # logged values behind the length of right answers


@dataclass(frozen=True, slots=True)
class Standing:
    """The cut share and the reward over the last 80 logged values, or over half of a longer run.

    Attributes:
        at_first: mean cut share of the first ten values; share: over the stretch.
        early, late: mean rewards of its first and last third; gain: upper bound of the difference, share of headroom;
            rising: the lower one is above 0; slope: the upper bound per step, share of the reward's range.
        place: where the reward stands, 0 to 1 of its range.
    """

    at_first: float
    share: float
    early: float
    late: float
    gain: float
    rising: bool
    slope: float
    place: float
    steps: tuple[int, int]


def stands(view: View) -> Standing | None:
    """Return the stretch, None where it is too short or the reward's range is known from step means alone."""
    scale = reward_scale(view)
    few = min(view.count("truncated_frac"), view.count("reward_mean")) < ROWS
    if few or not scale.seen or not scale.span > 0:
        return None
    since = int(view.recent("reward_mean")[0][-LAST:][0])
    since = min(since, (view.first_seen("reward_mean") + view.step) // 2)
    cut, reward = (view.trace(m) for m in ("truncated_frac", "reward_mean"))
    late = reward.first >= since
    value, at, share = reward.value[late], reward.step[late], cut.value[cut.first >= since]
    third = value.size // 3
    moved = stats.change(value[:third], value[-third:], z=BOUND_Z)
    level = stats.mean(value)
    room = scale.high - level
    between = float(at[-third:].mean() - at[:third].mean())
    return Standing(
        stats.mean(view.head("truncated_frac", FIRST)),
        stats.mean(share),
        moved.early,
        moved.late,
        moved.high / room if room > 0 else math.nan,
        moved.low > 0,
        moved.high / scale.span / between,
        scale.place(level),
        (since, view.step),
    )


@dataclass(frozen=True, slots=True)
class Pressed:
    """How long right answers are against the budget, and where the reward stands, 0 to 1 of its range."""

    length: float  # tokens
    share: float  # of the budget
    place: float
    steps: tuple[int, int]


def pressed(view: View) -> Pressed | None:
    """Return how near right answers come to the budget, None where their length or the budget is not known."""
    right, reward = (now(view, metric, PRESSED_ROWS) for metric in ("length_right_mean", "reward_mean"))
    budget = token_budget(view)
    if budget is None or right.n < PRESSED_ROWS or not reward_scale(view).known:
        return None
    return Pressed(right.mean, right.mean / budget, reward_scale(view).place(reward.mean), right.steps)
