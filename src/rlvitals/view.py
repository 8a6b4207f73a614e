"""What a check sees: of the run as it stands at one look the rows that are kept, its config and held-out scores."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from rlvitals.metrics import lookup
from rlvitals.schema import Event, Example, Float64, Int64, RunConfig, Segment, TrainerInfo
from rlvitals.store import HEAD, WINDOW, Store

T = TypeVar("T")
Array = TypeVar("Array", Int64, Float64)
_MISSING: Any = object()


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive rows handed to a fold. `col` gives float64[rows], NaN = not logged."""

    steps: Int64
    names: Mapping[str, int]
    values: Float64  # [metrics, rows]
    config: RunConfig

    def col(self, metric: str) -> Float64:
        at = self.names.get(metric)
        if at is None:
            return np.full(self.steps.size, np.nan)
        return np.asarray(self.values[at])


@dataclass(frozen=True, slots=True)
class Trace:
    """A series at the resolution that is kept: exact rows for short runs, blocks for long ones.

    Args:
        step: float64[K] step at the middle of each point; `first`, `last`: int64[K] its first and last step.
        value: float64[K], finite; count: float64[K] logged rows behind each point.
    """

    step: Float64
    first: Int64
    last: Int64
    value: Float64
    count: Float64

    @property
    def size(self) -> int:
        return int(self.value.size)


def _frozen(values: Array) -> Array:
    """Make an array read-only: the checks of one look share it."""
    values.setflags(write=False)
    return values


@dataclass(frozen=True, slots=True)
class Held:
    """One held-out set so far: step int64[K], score, stderr float64[K] (NaN = unknown)."""

    step: Int64
    score: Float64
    stderr: Float64
    items: int = 0
    metric: str = "accuracy"


@dataclass
class View:
    """The run as it stands at one look. Everything a check may ask; nothing of it is ever a later step."""

    store: Store
    config: RunConfig
    trainer: TrainerInfo
    evals: Mapping[str, Held]
    segments: tuple[Segment, ...] = ()
    events: tuple[Event, ...] = ()
    shown: Mapping[str, tuple[Example, ...]] = field(default_factory=dict)  # rollout fact -> its latest examples
    audits: tuple[object, ...] = ()  # records beside the run (auditresults), oldest first; they know no steps
    state: Any = None  # the asking check's own folded state
    _cache: dict[Hashable, Any] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return self.store.n

    @property
    def step(self) -> int:
        """The last training step seen."""
        return self.store.last_step

    @property
    def first_step(self) -> int:
        return self.store.first_step

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """Compute something once per look, shared by the checks that need it."""
        found: T = self._cache.get(key, _MISSING)
        if found is _MISSING:
            found = self._cache[key] = make()
        return found

    def _at(self, metric: str) -> int:
        return self.store.names.get(metric, -1)

    def count(self, metric: str, *, raw: bool = False) -> int:
        """Return how many finite values were logged; 0 for a constant zero that stands for "not measured"."""
        if raw:
            at = self._at(metric)
            return int(self.store.finite[at]) if at >= 0 else 0
        known = self._counts.get(metric)
        if known is None:
            known = self._counts[metric] = 0 if self.placeholder(metric) else self.count(metric, raw=True)
        return known

    def has(self, metric: str, rows: int = 1) -> bool:
        return self.count(metric) >= rows

    def placeholder(self, metric: str) -> bool:
        """True while a series that trainers write as 0 when unmeasured has never been anything else."""
        at = self._at(metric)
        if at < 0 or self.store.nonzero[at]:
            return False
        known = lookup(metric)
        return known is not None and known.zero_may_mean_unmeasured

    def examples(self, fact: str, n: int = 3) -> tuple[Example, ...]:
        """Return the latest rollouts that a rollout fact chose, at most n, the newest first; none of a later step."""
        found = [e for e in self.shown.get(fact, ()) if e.step <= self.step]
        return tuple(sorted(found, key=lambda e: -e.step)[:n])  # stable: within a step in the order of the dump

    def family(self, prefix: str) -> tuple[str, ...]:
        """Return the logged members of an open family ("reward_part/"), sorted by name."""
        names = self.store.names
        return self.cached(
            ("family", prefix), lambda: tuple(sorted(n for n in names if n.startswith(prefix) and self.has(n)))
        )

    def recent(self, metric: str, k: int = WINDOW) -> tuple[Int64, Float64]:
        """Return (steps, values) of the logged rows among the last k rows, finite only; read-only."""
        return self.cached(("recent", metric, k), lambda: self._recent(metric, k))

    def _recent(self, metric: str, k: int) -> tuple[Int64, Float64]:
        steps, values = self.steps_of(k), self.rows_of(metric, k)
        keep = np.isfinite(values)
        return (steps, values) if keep.all() else (_frozen(steps[keep]), _frozen(values[keep]))

    def rows_of(self, metric: str, k: int = WINDOW) -> Float64:
        """Return the last k rows of a metric with NaN where not logged; aligned between metrics; read-only."""
        rows = self.cached(("rows", metric), lambda: _frozen(self.store.recent(metric, WINDOW)[1]))
        return rows[max(rows.size - k, 0) :]

    def steps_of(self, k: int = WINDOW) -> Int64:
        """Return the steps of the last k rows; read-only."""
        steps = self.cached("steps", lambda: _frozen(self.store.recent("", WINDOW)[0]))
        return steps[max(steps.size - k, 0) :]

    def head(self, metric: str, k: int = HEAD) -> Float64:
        """Return the first k finite values: the run's own start; read-only."""
        return self.cached(("head", metric), lambda: self._head(metric))[:k]

    def _head(self, metric: str) -> Float64:
        at = self._at(metric)
        if at < 0:
            return np.zeros(0)
        values = self.store.head[at]
        return _frozen(values[np.isfinite(values)])

    def first_seen(self, metric: str) -> int:
        return int(self.store.first_seen[self._at(metric)]) if self._at(metric) >= 0 else -1

    def last_seen(self, metric: str) -> int:
        return int(self.store.last_seen[self._at(metric)]) if self._at(metric) >= 0 else -1

    def frozen_since(self, metric: str) -> int:
        """Return the step from which the series has not changed its value, -1 if never logged."""
        return int(self.store.changed_at[self._at(metric)]) if self._at(metric) >= 0 else -1

    def extremes(self, metric: str) -> tuple[float, int, float, int]:
        """Return (lowest, its step, highest, its step) over the whole run."""
        at, s = self._at(metric), self.store
        if at < 0:
            return (float("nan"), -1, float("nan"), -1)
        return (float(s.low[at]), int(s.low_step[at]), float(s.high[at]), int(s.high_step[at]))

    def trace(self, metric: str, *, center: str = "mean") -> Trace:
        """Return the whole run so far: exact rows up to WINDOW, else at most MAX_BLOCKS block means (or medians)."""
        return self.cached(("trace", metric, center), lambda: self._trace(metric, center))

    def _trace(self, metric: str, center: str) -> Trace:
        if self.store.n <= WINDOW:
            steps, values = self.recent(metric, WINDOW)
            return Trace(steps.astype(float), steps, steps, values, np.ones(values.size))
        sums = self.store.block_sums(metric)
        if sums is None:
            none = np.zeros(0)
            return Trace(none, none.astype(np.int64), none.astype(np.int64), none, none)
        keep = sums[0] > 0
        value = sums[2 if center == "median" else 1][keep] / sums[0][keep]
        first = self.store.block_first[: self.store.blocks][keep]
        last = self.store.block_last[: self.store.blocks][keep]
        return Trace(0.5 * (first + last), first, last, value, sums[0][keep].copy())
