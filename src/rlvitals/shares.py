"""Shares of counts: the interval of a proportion, and how many groups are tied by chance."""

from __future__ import annotations

import math


def wilson(successes: float, n: float, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's interval of a proportion; (0, 1) for n = 0."""
    if n <= 0:
        return (0.0, 1.0)
    p = successes / n
    centre = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (max((centre - half) / (1 + z * z / n), 0.0), min((centre + half) / (1 + z * z / n), 1.0))


def zero_variance_law(p: float, group_size: int) -> float:
    """Return the expected share of tied groups, p^G + (1 - p)^G, when every prompt has pass rate p (a lower bound)."""
    if not (0 <= p <= 1) or group_size < 1:
        return math.nan
    return float(p**group_size + (1 - p) ** group_size)
