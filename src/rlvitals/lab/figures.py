"""Shares, rates and medians with their intervals, as the scoreboard shows them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rlvitals.report.words import counted
from rlvitals.shares import wilson

Z95 = 1.96
DRAWS = 2000  # of a bootstrap: the 2.5% quantiles then rest on 50 draws (convention)
SEED = 0  # of a bootstrap, so that a page made again is the same


@dataclass(frozen=True, slots=True)
class Share:
    """How many of how many, with Wilson's 95% interval."""

    hits: int
    of: int

    @property
    def value(self) -> float:
        """The share, NaN of nothing."""
        return self.hits / self.of if self.of else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.hits, self.of, Z95) if self.of else (math.nan, math.nan)

    def __str__(self) -> str:
        if not self.of:
            return "none to judge"
        low, high = self.interval
        return f"{self.value:.1%} ({self.hits} of {self.of}; {100 * low:.0f}-{high:.0%})"


def share(hits: Iterable[bool]) -> Share:
    """Return the share of what is true."""
    seen = list(hits)
    return Share(sum(seen), len(seen))


@dataclass(frozen=True, slots=True)
class Rate:
    """Events per so many steps, with Byar's approximation of the exact 95% Poisson interval (Breslow and Day 1987)."""

    events: int
    steps: int
    per: int = 10_000

    @property
    def value(self) -> float:
        """Events per `per` steps, NaN without steps."""
        return self.events * self.per / self.steps if self.steps else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        if not self.steps:
            return math.nan, math.nan
        x, scale = self.events, self.per / self.steps
        low = x * (1 - 1 / (9 * x) - Z95 / (3 * math.sqrt(x))) ** 3 if x else 0.0
        y = x + 1
        return low * scale, y * (1 - 1 / (9 * y) + Z95 / (3 * math.sqrt(y))) ** 3 * scale

    def __str__(self) -> str:
        if not self.steps:
            return "no steps to judge"
        low, high = self.interval
        return f"{self.value:.2f} ({self.events} in {self.steps:,} steps; {low:.2f}-{high:.2f})"


def bootstrap(values: Sequence[float], statistic: Callable[[Sequence[float]], float]) -> tuple[float, float]:
    """Return the 95% percentile interval of a statistic over runs drawn with replacement; NaN of nothing."""
    if not values:
        return math.nan, math.nan
    draw = random.Random(SEED)
    found = sorted(statistic(draw.choices(values, k=len(values))) for _ in range(DRAWS))
    return found[round(0.025 * DRAWS)], found[round(0.975 * DRAWS) - 1]


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of all lies at or below; NaN of nothing."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)] if ordered else math.nan


def mean(values: Sequence[float]) -> float:
    """Return the mean, NaN of nothing."""
    return math.fsum(values) / len(values) if values else math.nan


@dataclass(frozen=True, slots=True)
class Middle:
    """Median, with its bootstrap interval, and 90% quantile of counts of steps, some of which may be infinite."""

    values: tuple[float, ...]

    @property
    def known(self) -> tuple[float, ...]:
        return tuple(v for v in self.values if not math.isnan(v))

    def quantile(self, share: float) -> float:
        """Return the smallest value that at least this share of all lies at or below; NaN of nothing."""
        return quantile(self.known, share)

    @property
    def median(self) -> float:
        return self.quantile(0.5)

    @property
    def interval(self) -> tuple[float, float]:
        return bootstrap(self.known, lambda drawn: quantile(drawn, 0.5))

    def __str__(self) -> str:
        known = self.known
        if not known:
            return "none to judge"
        never = sum(math.isinf(v) for v in known)
        tail = f", never in {never}" if never else ""
        if len(known) == 1:
            return f"{steps(self.median)} (one run)"
        low, high = (_bare(v) for v in self.interval)
        runs = counted(len(known), "run")
        return f"{steps(self.median)} ({low} to {high}; nine in ten: {steps(self.quantile(0.9))}; {runs}{tail})"


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean of shares of runs, with its bootstrap interval."""

    values: tuple[float, ...]

    @property
    def value(self) -> float:
        return mean(self.values)

    @property
    def interval(self) -> tuple[float, float]:
        return bootstrap(self.values, mean)

    def __str__(self) -> str:
        if not self.values:
            return "none to judge"
        if len(self.values) == 1:
            return f"{self.value:.0%} (one run)"
        low, high = self.interval
        return f"{self.value:.0%} ({100 * low:.0f}-{high:.0%})"


def _bare(value: float) -> str:
    return "never" if math.isinf(value) else f"{value:.0f}"


def steps(value: float) -> str:
    """Return a count of steps in words."""
    if math.isnan(value):
        return "unknown"
    return "never" if math.isinf(value) else f"{value:.0f} steps"
