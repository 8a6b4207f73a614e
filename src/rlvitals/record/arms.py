"""Several seeds per arm: interquartile mean, stratified bootstrap intervals, probability of improvement, seeds needed.

The conventions are those of rliable (arXiv 2108.13264): scores are a matrix of seeds by tasks, seeds are resampled
within each task, and a difference is told from its interval, never from two means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rlvitals.schema import Float64

RESAMPLES = 2_000  # bootstrap resamples (rliable's own default for point statistics)
SEED = 20_261_129  # of the bootstrap: the same runs give the same intervals
LEAST_SEEDS = 3  # per arm below which an interval over seeds says nothing (arXiv 2108.13264, section 4)
POWER_Z = 0.8416 + 1.96  # power 0.8 at a two-sided 0.05


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its 95% interval; NaN bounds where one seed leaves nothing to resample."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One arm: its interquartile mean over all seeds and the held-out sets of one scale."""

    name: str
    seeds: int
    iqm: Interval
    mean: float
    spread: float  # standard deviation over seeds of the mean over sets
    scored_on: str = ""


@dataclass(frozen=True, slots=True)
class Contrast:
    """Arm `a` against arm `b`: positive differences speak for `a`.

    Attributes:
        winner: the arm that the data supports, "" when it supports none.
        seeds_needed: per arm, for a difference as large as the one seen to be told with power 0.8; 0 when unknown.
    """

    a: str
    b: str
    difference: Interval
    probability_of_improvement: Interval
    winner: str
    seeds_needed: int
    because: str
    scored_on: str = ""


def iqm(scores: Float64) -> float:
    """Return the mean of the middle half of all values (seeds x tasks), trimmed as scipy's trim_mean(0.25) does."""
    ordered = np.sort(scores.ravel())
    cut = int(0.25 * ordered.size)
    kept = ordered[cut : ordered.size - cut]
    return float(kept.mean()) if kept.size else math.nan


def probability_of_improvement(a: Float64, b: Float64) -> float:
    """Return the chance that a seed of `a` beats one of `b` on the same task, ties counted half; [seeds, tasks]."""
    wins = a[:, None, :] > b[None, :, :]
    ties = a[:, None, :] == b[None, :, :]
    return float((wins + 0.5 * ties).mean())


def _resampled(scores: Float64, draw: np.random.Generator) -> Float64:
    """Return seeds drawn again within each task: the strata."""
    seeds, tasks = scores.shape
    chosen = draw.integers(0, seeds, size=(seeds, tasks))
    return np.take_along_axis(scores, chosen, axis=0)


def _interval(value: float, draws: list[float]) -> Interval:
    low, high = np.quantile(np.array(draws), [0.025, 0.975])
    return Interval(value, float(low), float(high))


def bootstrap(scores: Float64, statistic: Callable[[Float64], float]) -> Interval:
    """Return a statistic of [seeds, tasks] scores with its stratified bootstrap interval."""
    if scores.shape[0] < 2:
        return Interval(statistic(scores), math.nan, math.nan)
    draw = np.random.default_rng(SEED)
    return _interval(statistic(scores), [statistic(_resampled(scores, draw)) for _ in range(RESAMPLES)])


def _both(a: Float64, b: Float64, statistic: Callable[[Float64, Float64], float]) -> Interval:
    if min(a.shape[0], b.shape[0]) < 2:
        return Interval(statistic(a, b), math.nan, math.nan)
    draw = np.random.default_rng(SEED)
    draws = [statistic(_resampled(a, draw), _resampled(b, draw)) for _ in range(RESAMPLES)]
    return _interval(statistic(a, b), draws)


def arm_result(name: str, scores: Float64) -> ArmResult:
    """Return the summary of one arm; scores float64[seeds, tasks]."""
    per_seed = scores.mean(axis=1)
    spread = float(per_seed.std(ddof=1)) if per_seed.size > 1 else math.nan
    return ArmResult(name, int(scores.shape[0]), bootstrap(scores, iqm), float(scores.mean()), spread)


def contrast(a: str, b: str, scores: Mapping[str, Float64]) -> Contrast:
    """Return what the seeds say of two arms; a winner is named only when both intervals leave out "no difference"."""
    first, second = scores[a], scores[b]
    difference = _both(first, second, lambda x, y: iqm(x) - iqm(y))
    improvement = _both(first, second, probability_of_improvement)
    needed = seeds_needed(first, second)
    fewest = min(first.shape[0], second.shape[0])
    if fewest < LEAST_SEEDS:
        why = (
            f"{fewest} seed{'s' * (fewest != 1)} in an arm: at least {LEAST_SEEDS} are needed before a winner is named"
        )
        return Contrast(a, b, difference, improvement, "", needed, why)
    clear = difference.low > 0 or difference.high < 0
    sided = improvement.low > 0.5 or improvement.high < 0.5
    if clear and sided:
        winner = a if difference.value > 0 else b
        return Contrast(a, b, difference, improvement, winner, needed, "both intervals leave out no difference")
    return Contrast(a, b, difference, improvement, "", needed, "the intervals include no difference")


def seeds_needed(a: Float64, b: Float64) -> int:
    """Return the seeds per arm that would tell the difference seen, power 0.8 at 0.05; 0 when it can't be known."""
    first, second = a.mean(axis=1), b.mean(axis=1)
    if first.size < 2 or second.size < 2:
        return 0
    effect = abs(float(first.mean() - second.mean()))
    variance = float(first.var(ddof=1) + second.var(ddof=1))
    if effect == 0:
        return 0
    return max(math.ceil(POWER_Z**2 * variance / effect**2), LEAST_SEEDS)
