"""What the checks on rollout facts read the same way: levels, certainty over steps, the run's own start."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlvitals import stats
from rlvitals.check import Evidence, Threshold
from rlvitals.checks import course
from rlvitals.schema import Example, Float64, Int64
from rlvitals.view import View

ROWS = 20  # recent values that stand for "now"
LEAST = 5  # fewer logged values say nothing


@dataclass(frozen=True, slots=True)
class Recent:
    """The last values of a fact: steps int64[n], values float64[n]."""

    metric: str
    steps: Int64
    values: Float64

    @property
    def n(self) -> int:
        return int(self.values.size)

    @property
    def mean(self) -> float:
        return float(self.values.mean()) if self.n else math.nan

    @property
    def span(self) -> tuple[int, int]:
        return (int(self.steps[0]), int(self.steps[-1])) if self.n else (-1, -1)

    def sure(self, target: float = 0.0) -> float:
        """Return (mean - target) in standard errors over steps, with its sign.

        Steps hold other groups, so that their spread already holds what clusters the rollouts of a group; slow drifts
        widen it by their autocorrelation.
        """
        return certainty(self.values, target)


def certainty(values: Float64, target: float = 0.0) -> float:
    """Return (mean - target) / standard error, inflated for autocorrelation; 0 for fewer than LEAST values."""
    if values.size < LEAST:
        return 0.0
    away = float(values.mean()) - target
    if away == 0.0:
        return 0.0
    inflation = stats.inflation(np.arange(values.size, dtype=float), values)
    error = math.sqrt(float(values.var(ddof=1)) / values.size * max(inflation, 1.0))
    return away / max(error, abs(away) / course.CERTAIN)


def recent(view: View, metric: str, k: int = ROWS) -> Recent:
    """Return the last k logged values of a metric within the exact window."""
    steps, values = view.recent(metric)
    return Recent(metric, steps[-k:], values[-k:])


def began(view: View, metric: str, k: int = ROWS) -> float:
    """Return the mean of the first k values, NaN where the run is too short to have a start apart from now."""
    return float(view.head(metric, k).mean()) if view.count(metric) >= 2 * k else math.nan


def change(view: View, metric: str, k: int = ROWS) -> tuple[float, float, float]:
    """Return (first k, last k, standard errors of the change); zeros where the run is shorter than 2 k rows."""
    if view.count(metric) < 2 * k:
        return (math.nan, math.nan, 0.0)
    head, late = view.head(metric, k), recent(view, metric, k).values
    found = stats.change(head, late, z=1.0)
    error = found.high - found.difference
    moved = found.difference
    return (float(head.mean()), float(late.mean()), moved / max(error, abs(moved) / course.CERTAIN) if moved else 0.0)


def speaks(
    now: Recent,
    text: str,
    limit: Threshold,
    comparison: str = ">",
    *,
    observed: float | None = None,
    before: float | None = None,
    examples: tuple[Example, ...] = (),
) -> Evidence:
    """Return the evidence of a level: the sentence gets its steps and the limit with its source."""
    whole = f"{text} over steps {now.span[0]}-{now.span[1]}; limit {limit}"
    value = now.mean if observed is None else observed
    old = before if before is not None and math.isfinite(before) else None
    return Evidence(now.metric, whole, value, limit.unit, now.span, limit, comparison, old, examples)


def mastered(view: View, steps: Int64) -> Float64:
    """Return the share of groups that were all right at each of some steps, zeros where it is not logged at all.

    Taken at those very steps, so that it can be subtracted from another series; where it was not logged at one of them
    it is interpolated between its neighbours, and its last value stays.
    """
    known, right = view.recent("all_right_frac")
    if not right.size:
        return np.zeros(steps.size)
    return np.asarray(np.interp(steps.astype(float), known.astype(float), right))
