"""Tail probabilities and quantiles of the normal and Student distributions, in plain floats."""

from __future__ import annotations

import math

LARGEST_T = 200.0  # Student quantiles end here: wider intervals decide nothing


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


def student_quantile(z: float, dof: float) -> float:
    """Return the t quantile, at most LARGEST_T, with the tail probability of the normal quantile z > 0; dof >= 1.

    Newton's method on the logarithms of tail and t, where the tail is concave: it converges from anywhere.
    """
    target = math.log(normal_tail(z))
    scale = math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2) - 0.5 * math.log(dof * math.pi)
    t = z
    for _ in range(50):
        tail = t_tail(t, dof)
        density = math.exp(scale - 0.5 * (dof + 1) * math.log1p(t * t / dof))
        step = (math.log(tail) - target) * tail / (t * density)
        t = min(t * math.exp(min(step, 3.0)), LARGEST_T)
        if abs(step) < 1e-12 or t == LARGEST_T:
            break
    return t
