"""Robust, autocorrelation-aware statistics for training curves, in numpy alone.

Every function drops NaN pairs first and says what it needs; too little data gives NaN or an interval that covers
everything, never a verdict. Their error rates: docs/evidence.md, "Detection statistics and their error rates".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rlvitals.schema import Float64
from rlvitals.tails import student_quantile, t_tail

MAX_POINTS = 400  # trend tests work on at most this many points; longer series come as block summaries


def finite_pairs(x: Float64, y: Float64) -> tuple[Float64, Float64]:
    """Return the pairs in which both values are finite."""
    keep = np.isfinite(x) & np.isfinite(y)
    if keep.all():
        return x.astype(float, copy=False), y.astype(float, copy=False)
    return x[keep].astype(float), y[keep].astype(float)


def finite(y: Float64) -> Float64:
    """Return the finite values; the array itself when all are."""
    keep = np.isfinite(y)
    return y if keep.all() else y[keep]


def mean(y: Float64) -> float:
    """Return the mean, NaN for none (bit for bit np.mean's, at a third of its cost on short arrays)."""
    return float(np.add.reduce(y)) / y.size if y.size else math.nan


def running_means(y: Float64, width: int) -> Float64:
    """Return the mean of each `width` values in a row, float64[n - width + 1]."""
    sums = np.cumsum(np.concatenate([[0.0], y]))
    return np.asarray((sums[width:] - sums[:-width]) / width)


def variance(y: Float64) -> float:
    """Return the sample variance, NaN for fewer than two values (bit for bit y.var(ddof=1))."""
    if y.size < 2:
        return math.nan
    off = y - np.add.reduce(y) / y.size
    return float(np.add.reduce(off * off)) / (y.size - 1)


def median(y: Float64) -> float:
    """Return the median, NaN for none or where any is NaN (np.median's, at a fifth of its cost on short arrays)."""
    ordered = np.sort(y)  # NaN last
    return math.nan if ordered.size and ordered[-1] != ordered[-1] else _middle(ordered)


@lru_cache(maxsize=256)
def _pairs(n: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the indices (i, j) of all pairs i < j."""
    i, j = np.triu_indices(n, 1)
    return i, j


@lru_cache(maxsize=64)
def _index(n: int) -> Float64:
    """Return 0, 1 ... n - 1, read-only: the x of evenly spaced points."""
    index = np.arange(n, dtype=float)
    index.setflags(write=False)
    return index


def _slopes(x: Float64, y: Float64) -> Float64:
    """Return the slopes of all pairs of points with different x, in ascending order."""
    i, j = _pairs(y.size)
    dx, dy = x.take(j) - x.take(i), y.take(j) - y.take(i)
    keep = dx != 0
    if not keep.all():
        dx, dy = dx[keep], dy[keep]
    slopes = dy / dx
    slopes.sort()
    return slopes


@dataclass(frozen=True, slots=True)
class _Cut:
    """How points fall into equal blocks: begins, sizes, and each point's place in a grid padded to a rectangle."""

    begin: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    place: npt.NDArray[np.int64]  # of each point in the flattened grid
    lower: npt.NDArray[np.int64]  # of each block's lower and upper middle value, once its row is sorted
    upper: npt.NDArray[np.int64]


@lru_cache(maxsize=256)
def _cut(size: int, count: int) -> _Cut:
    edges = np.linspace(0, size, count + 1).astype(int)
    sizes = np.diff(edges)
    width = int(sizes.max())
    row = np.repeat(np.arange(count), sizes)
    at = np.arange(count) * width
    place = row * width + np.arange(size) - edges[row]
    return _Cut(edges[:-1], sizes, place, at + (sizes - 1) // 2, at + sizes // 2)


def blocks(x: Float64, y: Float64, count: int, *, center: str = "median") -> tuple[Float64, Float64]:
    """Return at most `count` equal blocks of consecutive points as (mean x, median or mean y)."""
    x, y = finite_pairs(x, y)
    if y.size <= count:
        return x, y
    cut = _cut(y.size, count)
    middle = np.add.reduceat(x, cut.begin) / cut.sizes
    if center != "median":
        return middle, np.add.reduceat(y, cut.begin) / cut.sizes
    flat = np.full(count * int(cut.sizes.max()), np.inf)  # rows padded with infinity, which sorts last
    flat[cut.place] = y
    flat.reshape(count, -1).sort(axis=1)
    return middle, 0.5 * (flat.take(cut.lower) + flat.take(cut.upper))


def theil_sen(x: Float64, y: Float64) -> float:
    """Return the median of all pairwise slopes, NaN for fewer than two points."""
    x, y = finite_pairs(x, y)
    if y.size < 2:
        return math.nan
    return _middle(_slopes(x, y))


def _middle(ordered: Float64) -> float:
    """Return the median of values in ascending order, NaN for none."""
    n = ordered.size
    return float(0.5 * (ordered[(n - 1) // 2] + ordered[n // 2])) if n else math.nan


DETREND_POINTS = 24  # longer series are detrended by the slope of this many block medians: the same line, at fixed cost


def inflation(x: Float64, y: Float64) -> float:
    """Return the variance inflation (1 + phi) / (1 - phi) from the lag-1 correlation of detrended ranks.

    phi is bias-corrected, (phi n + 1) / (n - 4), and clamped to [0, 0.97]; 1 means independent noise.
    """
    x, y = finite_pairs(x, y)
    if y.size < 6:
        return 1.0
    points = blocks(x, y, DETREND_POINTS) if y.size > DETREND_POINTS else (x, y)
    return _inflation(x, y, _middle(_slopes(*points)))


def _inflation(x: Float64, y: Float64, slope: float) -> float:
    n = y.size
    ranks = _ranks(y - slope * x if math.isfinite(slope) else y)
    ranks -= 0.5 * (n + 1)  # their mean, ties or not; all sums below are exact
    power = float(ranks @ ranks)
    if power == 0:
        return 1.0
    phi = float(ranks[:-1] @ ranks[1:]) / power
    phi = min(max((phi * n + 1) / (n - 4), 0.0), 0.97)
    return (1 + phi) / (1 - phi)


def _ranks(y: Float64) -> Float64:
    """Return the ranks from 1 on; ties share their mean rank."""
    order = np.argsort(y, kind="stable")
    ordered = y.take(order)
    ranks = np.empty(y.size)
    new = ordered[1:] != ordered[:-1]
    if new.all():
        ranks[order] = _index(y.size)
        ranks += 1.0
        return ranks
    begin = np.concatenate(([0], np.flatnonzero(new) + 1))
    end = np.append(begin[1:], y.size)
    ranks[order] = np.repeat(0.5 * (begin + end + 1), end - begin)
    return ranks


@dataclass(frozen=True, slots=True)
class Trend:
    """A monotone trend: Theil-Sen slope (per unit of x), its interval, Mann-Kendall z and two-sided p.

    `p` uses the effective number of points under AR(1) noise; NaN when there are fewer than 6 points.
    """

    slope: float
    low: float
    high: float
    z: float
    points: int
    inflation: float

    @property
    def p(self) -> float:
        """Two-sided p under AR(1) noise, from the effective number of points."""
        return 2 * t_tail(abs(self.z), max(self.points / self.inflation - 2, 1.0))

    @property
    def rising(self) -> bool:
        return self.low > 0

    @property
    def falling(self) -> bool:
        return self.high < 0


NO_TREND = Trend(math.nan, -math.inf, math.inf, math.nan, 0, 1.0)


def trend(x: Float64, y: Float64, *, z: float = 1.96, points: int = 24) -> Trend:
    """Return the trend of y over x on block medians, with an interval at the normal quantile `z`.

    The interval is Sen's rank interval with the Mann-Kendall variance inflated for autocorrelation
    (false-positive rate 0.03-0.06 at nominal 0.05 for AR up to 0.85; docs/measurements.md).
    """
    found = _kendall(x, y, points)
    return NO_TREND if found is None else found.at(z)


def careful_trend(x: Float64, y: Float64, z: float) -> Trend:
    """Return the trend of at most a few dozen points with an interval that allows for their effective number.

    The interval is Student's, and only computed where the normal one, which is never wider, leaves out zero.
    """
    found = _kendall(x, y, x.size)
    if found is None:
        return NO_TREND
    plain = found.at(z)
    if not (plain.falling or plain.rising):
        return plain
    return found.at(student_quantile(z, max(found.points / found.inflation - 2, 1.0)))


@dataclass(frozen=True, slots=True)
class _Kendall:
    """All pairwise slopes in ascending order, and Mann-Kendall's s with its standard deviation."""

    slopes: Float64
    s: float
    sd: float
    points: int
    inflation: float

    def at(self, z: float) -> Trend:
        """Return the trend with its interval at the normal quantile `z`."""
        score = 0.0 if self.s == 0 else (self.s - math.copysign(1.0, self.s)) / self.sd
        m, half = self.slopes.size, z * self.sd
        low, high = math.floor((m - half) / 2), math.ceil((m + half) / 2)
        return Trend(
            slope=_middle(self.slopes),
            low=float(self.slopes[low]) if low >= 0 else -math.inf,
            high=float(self.slopes[high]) if high < m else math.inf,
            z=score,
            points=self.points,
            inflation=self.inflation,
        )


def _kendall(x: Float64, y: Float64, points: int) -> _Kendall | None:
    """Return the statistics behind a trend on at most `points` block medians; None under 6 points."""
    x, y = blocks(x, y, points)
    n = y.size
    if n < 6:
        return None
    slopes = _slopes(x, y)
    m = slopes.size
    if m == 0:
        return None
    below, upto = (int(np.searchsorted(slopes, 0.0, side=side)) for side in ("left", "right"))
    inflated = _inflation(x, y, _middle(slopes))
    sd = math.sqrt(max(_kendall_variance(y) * inflated, 1e-12))
    return _Kendall(slopes, float(m - upto - below), sd, n, inflated)


def _kendall_variance(y: Float64) -> float:
    n = y.size
    variance = float(n * (n - 1) * (2 * n + 5))
    ordered = np.sort(y)
    new = ordered[1:] != ordered[:-1]
    if not new.all():
        ties = np.diff(np.concatenate(([-1], np.flatnonzero(new), [n - 1])))
        variance -= float((ties * (ties - 1) * (2 * ties + 5)).sum())
    return variance / 18


def mad_sd(y: Float64) -> float:
    """Return the standard deviation estimated from the median absolute deviation; NaN when empty."""
    y = finite(y)
    if y.size == 0:
        return math.nan
    return 1.4826 * median(np.abs(y - median(y)))


def noise_sd(y: Float64) -> float:
    """Return the step-to-step noise of a series, from successive differences, so that a slow trend does not count."""
    y = finite(y)
    if y.size < 3:
        return math.nan
    return mad_sd(y[1:] - y[:-1]) / math.sqrt(2)


@dataclass(frozen=True, slots=True)
class Change:
    """A difference of two stretches of a series: late minus early, with its interval under AR(1) noise."""

    early: float
    late: float
    difference: float
    low: float
    high: float
    n: int


def change(early: Float64, late: Float64, *, z: float = 1.96) -> Change:
    """Return the difference of means of two stretches with a z-interval inflated for their autocorrelation."""
    early, late = finite(early), finite(late)
    if early.size < 2 or late.size < 2:
        return Change(math.nan, math.nan, math.nan, -math.inf, math.inf, int(early.size + late.size))
    return change_of(moments(early), moments(late), z=z)


@dataclass(frozen=True, slots=True)
class Moments:
    """The mean of a stretch of evenly spaced values and the variance of that mean under AR(1) noise."""

    mean: float
    error2: float
    n: int


def moments(y: Float64) -> Moments:
    """Return the moments of finite, evenly spaced values; at least two."""
    return Moments(mean(y), variance(y) / y.size * inflation(_index(y.size), y), y.size)


def change_of(early: Moments, late: Moments, *, z: float = 1.96) -> Change:
    """Return the difference of two stretches whose moments are known already."""
    difference = late.mean - early.mean
    half = z * math.sqrt(early.error2 + late.error2)
    return Change(early.mean, late.mean, difference, difference - half, difference + half, early.n + late.n)
