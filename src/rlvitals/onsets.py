"""When a series changed: the interval in which a change of level or slope began, and from when a condition lasts."""

from __future__ import annotations

import numpy as np

from rlvitals.schema import Float64
from rlvitals.stats import finite_pairs


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
