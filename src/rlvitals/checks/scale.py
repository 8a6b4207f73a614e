"""What a reward can be, from the config or from what this run shows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlvitals import stats
from rlvitals.view import View

TWO_LEVEL_ROWS = 10  # rows that must obey the law of a reward with two values (convention)
TWO_LEVEL_SHARE = 0.9  # of those rows (convention: evaluation rows and rounding may break it)
TWO_LEVEL_SLACK = 0.05  # of H: rounding, the n / (n - 1) of the sample variance, means over several steps
TWO_LEVEL_MOVED = 0.15  # of H: a mean that hardly moves would let any reward obey
TWO_LEVEL_EXACT = 0.01  # of H: rounding in the log
TWO_LEVEL_MEANS = 5  # different means that must obey so exactly (convention)
TWO_LEVEL_GRID = 20  # a value within a twentieth of a multiple of 0.05 is taken for it


@dataclass(frozen=True, slots=True)
class Scale:
    """What a reward can be, as far as this run shows: [low, high], and where that is known from.

    `known` is True for a range from the config or by definition, False for one that was only observed.
    """

    low: float
    high: float
    known: bool
    source: str

    @property
    def span(self) -> float:
        return self.high - self.low

    @property
    def seen(self) -> bool:
        """True when the range is known or seen in single rollouts: step means alone understate it."""
        return self.known or self.source.startswith("single")

    def place(self, value: float) -> float:
        """Return where a value lies in the range: 0 at the floor, 1 at the top; NaN for an empty range."""
        return (value - self.low) / self.span if self.span > 0 else math.nan


def reward_scale(view: View) -> Scale:
    """Return the range of the total reward: the config's, else the extremes seen in this run.

    Observed extremes of single rollouts (reward_min, reward_max) come first; step means understate the range, so a
    logged spread widens it (a mean m with standard deviation s needs a range of at least 2 s).
    """
    return view.cached("reward_scale", lambda: _reward_scale(view))


def _reward_scale(view: View) -> Scale:
    low_c, high_c = view.config.reward_min, view.config.reward_max
    if low_c is not None and high_c is not None and high_c > low_c:
        return Scale(low_c, high_c, True, "config")
    top = two_level_top(view) if low_c is None and high_c is None else None
    if top is not None:
        return Scale(0.0, top, False, "single rewards of two values, as mean and spread show")
    mean_low, _, mean_high, _ = view.extremes("reward_mean")
    low, high = mean_low, mean_high
    single = view.has("reward_max", 5) and view.has("reward_min", 5)
    if single:
        low, high = min(low, view.extremes("reward_min")[0]), max(high, view.extremes("reward_max")[2])
    spread = view.extremes("reward_std")[2] if view.has("reward_std", 5) else 0.0
    if not single and spread > 0 and high - low < 2 * spread:
        middle = 0.5 * (low + high)
        low, high = middle - spread, middle + spread
    low = low if low_c is None else low_c
    high = high if high_c is None else high_c
    return Scale(low, high, False, "single rollouts of this run" if single else "step means of this run")


def two_level_top(view: View) -> float | None:
    """Return H where mean and spread show that single rewards are 0 or H, None where they do not.

    Such a reward has variance m (H - m) at mean m, so m + variance / m is H at every mean: rewards with other levels
    break that law as soon as their mean moves. Only a spread over the whole batch obeys it.
    """
    if view.extremes("reward_mean")[0] < 0 or view.has("reward_min", 5) or not view.has("reward_std", TWO_LEVEL_ROWS):
        return None
    means, spreads = view.trace("reward_mean"), view.trace("reward_std")
    _, i, j = np.intersect1d(means.step, spreads.step, assume_unique=True, return_indices=True)
    mean, spread = means.value[i], spreads.value[j]
    inside = (mean > 0) & (spread > 0)
    if np.count_nonzero(inside) < TWO_LEVEL_ROWS:
        return None
    mean, tops = mean[inside], mean[inside] + spread[inside] ** 2 / mean[inside]
    top = stats.median(tops)
    exact = float((np.abs(tops / top - 1) <= TWO_LEVEL_SLACK).mean()) >= TWO_LEVEL_SHARE
    moved = float(np.ptp(mean)) >= TWO_LEVEL_MOVED * top
    if not moved:  # then to the last digit, over different means: no other rewards do that
        close = np.abs(tops / top - 1) <= TWO_LEVEL_EXACT
        moved = bool(close.mean() >= TWO_LEVEL_SHARE) and np.unique(mean).size >= TWO_LEVEL_MEANS
    above = view.extremes("reward_mean")[2] > top * (1 + TWO_LEVEL_SLACK)
    if above or not (exact and moved):
        return None
    near = round(top * TWO_LEVEL_GRID) / TWO_LEVEL_GRID  # the sample variance of a small batch is a little too wide
    return near if near and abs(near / top - 1) <= 1 / TWO_LEVEL_GRID else top
