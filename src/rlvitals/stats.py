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

MAX_POINTS = 400  # trend tests work on at most this many points; longer series come as block summaries


def finite_pairs(x: Float64, y: Float64) -> tuple[Float64, Float64]:
    """Return the pairs in which both values are finite."""
    keep = np.isfinite(x) & np.isfinite(y)
    return x[keep].astype(float), y[keep].astype(float)


def median(y: Float64) -> float:
    """Return the median of finite values, NaN for none (a plain sort: np.median costs five times as much here)."""
    n = y.size
    if n == 0:
        return math.nan
    ordered = np.sort(y)
    return float(0.5 * (ordered[(n - 1) // 2] + ordered[n // 2]))


@lru_cache(maxsize=256)
def _pairs(n: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the indices (i, j) of all pairs i < j."""
    i, j = np.triu_indices(n, 1)
    return i, j


def blocks(x: Float64, y: Float64, count: int, *, center: str = "median") -> tuple[Float64, Float64]:
    """Return at most `count` equal blocks of consecutive points as (mean x, median or mean y)."""
    x, y = finite_pairs(x, y)
    if y.size <= count:
        return x, y
    edges = np.linspace(0, y.size, count + 1).astype(int)
    sizes = np.diff(edges)
    middle = np.add.reduceat(x, edges[:-1]) / sizes
    if center != "median":
        return middle, np.add.reduceat(y, edges[:-1]) / sizes
    grid = np.full((count, int(sizes.max())), np.inf)  # rows padded with infinity, which sorts last
    row = np.repeat(np.arange(count), sizes)
    grid[row, np.arange(y.size) - edges[row]] = y
    grid.sort(axis=1)
    at = np.arange(count)
    return middle, 0.5 * (grid[at, (sizes - 1) // 2] + grid[at, sizes // 2])


def theil_sen(x: Float64, y: Float64) -> float:
    """Return the median of all pairwise slopes, NaN for fewer than two points."""
    x, y = finite_pairs(x, y)
    if y.size < 2:
        return math.nan
    i, j = _pairs(y.size)
    dx = x[j] - x[i]
    keep = dx != 0
    return median((y[j] - y[i])[keep] / dx[keep])


DETREND_POINTS = 24  # longer series are detrended by the slope of this many block medians: the same line, at fixed cost


def inflation(x: Float64, y: Float64) -> float:
    """Return the variance inflation (1 + phi) / (1 - phi) from the lag-1 correlation of detrended ranks.

    phi is bias-corrected, (phi n + 1) / (n - 4), and clamped to [0, 0.97]; 1 means independent noise.
    """
    x, y = finite_pairs(x, y)
    if y.size < 6:
        return 1.0
    return _inflation(x, y, theil_sen(*blocks(x, y, DETREND_POINTS)))


def _inflation(x: Float64, y: Float64, slope: float) -> float:
    n = y.size
    residual = y - (slope * x if math.isfinite(slope) else 0.0)
    ranks = _ranks(residual)
    centred = ranks - ranks.mean()
    power = float((centred**2).sum())
    if power == 0:
        return 1.0
    phi = float((centred[:-1] * centred[1:]).sum()) / power
    phi = min(max((phi * n + 1) / (n - 4), 0.0), 0.97)
    return (1 + phi) / (1 - phi)


def _ranks(y: Float64) -> Float64:
    order = np.argsort(y, kind="stable")
    ordered = y[order]
    new = np.empty(y.size, dtype=bool)
    new[0], new[1:] = True, ordered[1:] != ordered[:-1]
    begin = np.flatnonzero(new)
    end = np.append(begin[1:], y.size)
    ranks = np.empty(y.size)
    ranks[order] = (0.5 * (begin + end + 1))[np.cumsum(new) - 1]  # ties share their mean rank
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
    p: float
    points: int
    inflation: float

    @property
    def rising(self) -> bool:
        return self.low > 0

    @property
    def falling(self) -> bool:
        return self.high < 0


NO_TREND = Trend(math.nan, -math.inf, math.inf, math.nan, math.nan, 0, 1.0)


def trend(x: Float64, y: Float64, *, z: float = 1.96, points: int = 24) -> Trend:
    """Return the trend of y over x on block medians, with an interval at the normal quantile `z`.

    The interval is Sen's rank interval with the Mann-Kendall variance inflated for autocorrelation
    (false-positive rate 0.03-0.06 at nominal 0.05 for AR up to 0.85; docs/measurements.md).
    """
    x, y = blocks(x, y, points) if x.size > points else finite_pairs(x, y)
    n = y.size
    if n < 6:
        return NO_TREND
    i, j = _pairs(n)
    dx, dy = x[j] - x[i], y[j] - y[i]
    keep = dx != 0
    slopes = np.sort(dy[keep] / dx[keep])
    if slopes.size == 0:
        return NO_TREND
    s = float(np.sign(dy[keep] * dx[keep]).sum())
    variance = _kendall_variance(y)
    centre = float(0.5 * (slopes[(slopes.size - 1) // 2] + slopes[slopes.size // 2]))
    infl = _inflation(x, y, centre)
    sd = math.sqrt(max(variance * infl, 1e-12))
    score = 0.0 if s == 0 else (s - math.copysign(1.0, s)) / sd
    dof = max(n / infl - 2, 1.0)
    p = 2 * t_tail(abs(score), dof)
    m = slopes.size
    half = z * sd
    low = math.floor((m - half) / 2)
    high = math.ceil((m + half) / 2)
    return Trend(
        slope=centre,
        low=float(slopes[low]) if low >= 0 else -math.inf,
        high=float(slopes[high]) if high < m else math.inf,
        z=score,
        p=p,
        points=n,
        inflation=infl,
    )


def _kendall_variance(y: Float64) -> float:
    n = y.size
    variance = float(n * (n - 1) * (2 * n + 5))
    ordered = np.sort(y)
    ties = np.diff(np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1], [True]))))
    variance -= float((ties * (ties - 1) * (2 * ties + 5)).sum())
    return variance / 18


def t_tail(t: float, dof: float) -> float:
    """Return the upper tail probability of Student's t."""
    if not math.isfinite(t):
        return math.nan if math.isnan(t) else 0.0
    tail = 0.5 * beta_inc(dof / 2, 0.5, dof / (dof + t * t))
    return tail if t >= 0 else 1 - tail


def beta_inc(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function (continued fraction; absolute error below 1e-10)."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x > (a + 1) / (a + b + 2):
        return 1 - front * _beta_fraction(b, a, 1 - x) / b
    return front * _beta_fraction(a, b, x) / a


def _beta_fraction(a: float, b: float, x: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    h = d
    for m in range(1, 300):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + numerator * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + numerator / c
            c = c if abs(c) > tiny else tiny
            h *= d * c
        if abs(d * c - 1) < 1e-12:
            break
    return h


def normal_tail(z: float) -> float:
    """Return the upper tail probability of the standard normal."""
    return 0.5 * math.erfc(z / math.sqrt(2))


def wilson(successes: float, n: float, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's interval of a proportion; (0, 1) for n = 0."""
    if n <= 0:
        return (0.0, 1.0)
    p = successes / n
    centre = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (max((centre - half) / (1 + z * z / n), 0.0), min((centre + half) / (1 + z * z / n), 1.0))


def mad_sd(y: Float64) -> float:
    """Return the standard deviation estimated from the median absolute deviation; NaN when empty."""
    y = y[np.isfinite(y)]
    if y.size == 0:
        return math.nan
    return 1.4826 * median(np.abs(y - median(y)))


def noise_sd(y: Float64) -> float:
    """Return the step-to-step noise of a series, from successive differences, so that a slow trend does not count."""
    y = y[np.isfinite(y)]
    if y.size < 3:
        return math.nan
    return mad_sd(np.diff(y)) / math.sqrt(2)


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
    early, late = early[np.isfinite(early)], late[np.isfinite(late)]
    if early.size < 2 or late.size < 2:
        return Change(math.nan, math.nan, math.nan, -math.inf, math.inf, int(early.size + late.size))
    variance = 0.0
    for part in (early, late):
        infl = inflation(np.arange(part.size, dtype=float), part)
        variance += float(part.var(ddof=1)) / part.size * infl
    difference = float(late.mean() - early.mean())
    half = z * math.sqrt(variance)
    return Change(
        float(early.mean()),
        float(late.mean()),
        difference,
        difference - half,
        difference + half,
        int(early.size + late.size),
    )


def split_onset(x: Float64, y: Float64) -> tuple[float, float] | None:
    """Return the interval of x in which a level or slope change of y most likely began; None under 6 points.

    Least squares over all splits into a flat part and a straight line that starts from it; the interval holds the
    splits whose error is within 10% of the best one's (a likelihood interval for about 20 independent points).
    """
    x, y = finite_pairs(x, y)
    n = y.size
    if n < 6:
        return None
    errors = _split_errors(x, y)
    best = float(errors.min())
    good = np.flatnonzero(errors <= best * 1.1 + 1e-300)
    return float(x[good[0]]), float(x[min(good[-1] + 1, n - 1)])


def _split_errors(x: Float64, y: Float64) -> Float64:
    """Return float64[n]: the squared error of a level up to split k and a line from it after; the ends are inf."""
    n = y.size
    x, y = x - x.mean(), y - y.mean()  # the sums below lose no digits around zero
    count = np.arange(1, n + 1)
    left_y, left_yy = np.cumsum(y), np.cumsum(y * y)
    level = left_y / count
    flat = left_yy - count * level**2

    def after(v: Float64) -> Float64:
        return np.asarray(v.sum() - np.cumsum(v) + v)  # sum over points k and later

    m = n - count + 1
    sx, sy, sxx, sxy, syy = after(x), after(y), after(x * x), after(x * y), after(y * y)
    power = sxx - 2 * x * sx + m * x * x
    cross = sxy - x * sy - level * (sx - m * x)
    total = syy - 2 * level * sy + m * level**2
    slope = np.divide(cross, power, out=np.zeros(n), where=power > 0)
    errors = np.maximum(flat + total - slope * cross, 0.0)
    errors[[0, -1]] = np.inf
    return errors


def first_lasting(x: Float64, hit: np.ndarray, *, share: float = 0.8) -> int | None:
    """Return the index from which `hit` holds for at least `share` of all later points, None if it never does."""
    if hit.size == 0 or not hit[-1]:
        return None
    later = np.cumsum(hit[::-1])[::-1] / np.arange(hit.size, 0, -1)
    good = np.flatnonzero((later >= share) & hit)
    return int(good[0]) if good.size else None


def zero_variance_law(p: float, group_size: int) -> float:
    """Return the expected share of tied groups, p^G + (1 - p)^G, when every prompt has pass rate p (a lower bound)."""
    if not (0 <= p <= 1) or group_size < 1:
        return math.nan
    return float(p**group_size + (1 - p) ** group_size)
