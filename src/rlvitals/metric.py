"""One row of the vocabulary of metrics: see metrics.METRICS."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlvitals.schema import Direction

INF = math.inf


@dataclass(frozen=True, slots=True)
class Metric:
    """One canonical metric.

    Attributes:
        low, high: the range of possible values, whatever the run's health.
        variants: estimators or definitions that trainers log under this name; never compared with one another.
        direction: for divergences, between which policies.
        zero_may_mean_unmeasured: trainers write a constant 0 for it when it is not measured.
        logged_as: the item of "What to log" (1-10) it belongs to, 0 for none.
    """

    name: str
    unit: str
    low: float
    high: float
    measures: str
    healthy: str
    variants: tuple[str, ...] = ()
    direction: Direction | None = None
    zero_may_mean_unmeasured: bool = False
    what_to_log: int = 0
