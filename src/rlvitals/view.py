"""What a check sees: a bounded window of exact rows and a pyramid of block summaries of everything before.

`Store` takes rows in chunks of any size and always ends in the same state, bit for bit: that is what makes the live
verdict equal to the verdict on the same prefix of a file. Memory is bounded by the number of metrics, not of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from rlvitals.metrics import lookup
from rlvitals.schema import Event, Example, Float64, Int64, RunConfig, Segment, TrainerInfo

WINDOW = 512  # rows kept exactly
BASE = 8  # rows per smallest block
MAX_BLOCKS = 128  # blocks kept; when full, neighbours merge and the block size doubles
HUGE = 1e100  # beyond it a logged number is no measurement, and its square no number (definition of float64: 1e308)
HEAD = 32  # first finite values kept exactly: the run's own start level

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


class Store:
    """Everything the engine remembers of the rows so far."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.n = 0
        self.last_step = -1
        self.first_step = -1
        self._fill = 0  # valid columns of the window buffer
        self._done = 0  # rows already summarised in blocks
        self.block_rows = BASE
        self.block_first = np.zeros(MAX_BLOCKS + 1, dtype=np.int64)
        self.block_last = np.zeros(MAX_BLOCKS + 1, dtype=np.int64)
        self.blocks = 0
        self._steps = np.zeros(2 * WINDOW, dtype=np.int64)
        self._allocate(16)

    def _allocate(self, capacity: int) -> None:
        self._window = np.full((capacity, 2 * WINDOW), np.nan)
        self._sums = np.zeros((4, capacity, MAX_BLOCKS + 1))  # count, sum, count*median, sum of squares
        self.head = np.full((capacity, HEAD), np.nan)
        self.finite = np.zeros(capacity, dtype=np.int64)
        self.nonzero = np.zeros(capacity, dtype=np.int64)
        self.low = np.full(capacity, np.inf)
        self.high = np.full(capacity, -np.inf)
        self.low_step = np.full(capacity, -1, dtype=np.int64)
        self.high_step = np.full(capacity, -1, dtype=np.int64)
        self.first_seen = np.full(capacity, -1, dtype=np.int64)
        self.last_seen = np.full(capacity, -1, dtype=np.int64)
        self.changed_at = np.full(capacity, -1, dtype=np.int64)
        self.last_value = np.full(capacity, np.nan)

    def _grow(self, needed: int) -> None:
        capacity = self._window.shape[0]
        if needed <= capacity:
            return
        old = {k: v for k, v in self.__dict__.items() if isinstance(v, np.ndarray)}
        self._allocate(max(needed, 2 * capacity))
        for key in (
            "_window",
            "head",
            "finite",
            "nonzero",
            "low",
            "high",
            "low_step",
            "high_step",
            "first_seen",
            "last_seen",
            "changed_at",
            "last_value",
        ):
            getattr(self, key)[:capacity] = old[key]
        self._sums[:, :capacity] = old["_sums"]

    def fork(self) -> Store:
        """Return a store in the same state that shares nothing with this one."""
        other = copy(self)
        for key, value in vars(self).items():
            if isinstance(value, np.ndarray | dict):
                setattr(other, key, value.copy())
        return other

    def index(self, names: tuple[str, ...]) -> Int64:
        """Return the store's row for each name, making room for new ones."""
        fresh = [name for name in names if name not in self.names]
        self._grow(len(self.names) + len(fresh))
        for name in fresh:
            self.names[name] = len(self.names)
        return np.fromiter((self.names[name] for name in names), dtype=np.int64, count=len(names))

    def append(self, steps: Int64, at: Int64, values: Float64) -> None:
        """Take rows: steps int64[k], at int64[m] from `index`, values float64[m, k]."""
        for begin in range(0, steps.size, WINDOW):
            self._append(steps[begin : begin + WINDOW], at, values[:, begin : begin + WINDOW])

    def _append(self, steps: Int64, at: Int64, values: Float64) -> None:
        k = int(steps.size)
        if k == 0:
            return
        if self._fill + k > 2 * WINDOW:
            keep = min(self._fill, WINDOW)
            self._window[:, :keep] = self._window[:, self._fill - keep : self._fill]
            self._steps[:keep] = self._steps[self._fill - keep : self._fill]
            self._fill = keep
        used = slice(self._fill, self._fill + k)
        self._window[:, used] = np.nan
        self._window[at, used] = np.where(np.abs(values) < HUGE, values, np.nan)
        self._steps[used] = steps
        self._fill += k
        self.n += k
        if self.first_step < 0:
            self.first_step = int(steps[0])
        self.last_step = int(steps[-1])
        if k == 1:  # the live monitor's rows come one by one
            self._note_row(int(steps[0]), at, self._window[at, self._fill - 1])
        else:
            self._summarise(steps, at, self._window[at, used])
        self._to_blocks()

    def _note_row(self, step: int, at: Int64, values: Float64) -> None:
        """Do for one row what `_summarise` does for many."""
        seen = np.isfinite(values)
        rows, vals = (at, values) if seen.all() else (at[seen], values[seen])
        if rows.size == 0:
            return
        n = self.finite[rows]
        if n.min() < HEAD:
            early = n < HEAD
            self.head[rows[early], n[early]] = vals[early]
            self.first_seen[rows[n == 0]] = step
        self.last_seen[rows] = step
        self.finite[rows] = n + 1
        self.nonzero[rows] += vals != 0.0
        lower, higher = vals < self.low[rows], vals > self.high[rows]
        self.low[rows[lower]], self.low_step[rows[lower]] = vals[lower], step
        self.high[rows[higher]], self.high_step[rows[higher]] = vals[higher], step
        self.changed_at[rows[vals != self.last_value[rows]]] = step
        self.last_value[rows] = vals

    def _summarise(self, steps: Int64, at: Int64, values: Float64) -> None:
        finite = np.isfinite(values)
        counts = finite.sum(axis=1)
        live = np.flatnonzero(counts)
        if live.size == 0:
            return
        rows, seen, vals = at[live], finite[live], values[live]
        for i in np.flatnonzero(self.finite[rows] < HEAD):
            start = int(self.finite[rows[i]])
            found = vals[i][seen[i]][: HEAD - start]
            self.head[rows[i], start : start + found.size] = found
        last_at = seen.shape[1] - 1 - np.argmax(seen[:, ::-1], axis=1)
        unseen = self.first_seen[rows] < 0
        self.first_seen[rows[unseen]] = steps[np.argmax(seen, axis=1)][unseen]
        self.last_seen[rows] = steps[last_at]
        self.finite[rows] += counts[live]
        self.nonzero[rows] += (seen & (vals != 0.0)).sum(axis=1)
        for sign, bound, where in ((1.0, self.low, self.low_step), (-1.0, self.high, self.high_step)):
            filled = np.where(seen, sign * vals, np.inf)
            best = np.argmin(filled, axis=1)
            value = filled[np.arange(rows.size), best]
            better = value < sign * bound[rows]
            bound[rows[better]] = sign * value[better]
            where[rows[better]] = steps[best[better]]
        self._note_changes(steps, rows, seen, vals)

    def _note_changes(self, steps: Int64, rows: Int64, seen: np.ndarray, vals: Float64) -> None:
        """Keep the step at which each series last took another value: the start of a frozen stretch."""
        k = vals.shape[1]
        carried = np.where(seen, np.arange(1, k + 1), 0)
        previous = np.maximum.accumulate(np.concatenate([np.zeros((rows.size, 1), int), carried], 1), 1)[:, :k]
        padded = np.concatenate([self.last_value[rows][:, None], vals], axis=1)
        prior = np.take_along_axis(padded, previous, axis=1)
        changed = seen & ~(vals == prior)
        any_change = changed.any(axis=1)
        last_change = k - 1 - np.argmax(changed[:, ::-1], axis=1)
        self.changed_at[rows[any_change]] = steps[last_change[any_change]]
        last_at = k - 1 - np.argmax(seen[:, ::-1], axis=1)
        self.last_value[rows] = vals[np.arange(rows.size), last_at]

    def _to_blocks(self) -> None:
        ready = (self.n - self._done) // BASE
        if ready == 0:
            return
        begin = self._fill - (self.n - self._done)
        part = self._window[: len(self.names), begin : begin + ready * BASE]
        cube = part.reshape(part.shape[0], ready, BASE)
        finite = np.isfinite(cube)
        filled = np.where(finite, cube, 0.0)
        count, total, square = finite[..., 0].astype(float), filled[..., 0].copy(), filled[..., 0] ** 2
        for i in range(1, BASE):  # written out so that the sum never depends on how many blocks there are
            count += finite[..., i]
            total += filled[..., i]
            square += filled[..., i] ** 2
        ordered = np.sort(cube, axis=-1)  # NaN last
        n = count.astype(int)
        lower = np.take_along_axis(ordered, np.maximum(n - 1, 0)[..., None] // 2, axis=-1)[..., 0]
        upper = np.take_along_axis(ordered, np.minimum(n // 2, BASE - 1)[..., None], axis=-1)[..., 0]
        median = np.where(n > 0, 0.5 * (lower + upper), 0.0)
        stats = np.stack([count, total, count * median, square])
        steps = self._steps[begin : begin + ready * BASE].reshape(ready, BASE)
        for j in range(ready):
            self._add_block(stats[:, :, j], int(steps[j, 0]), int(steps[j, -1]))
        self._done += ready * BASE

    def _add_block(self, stats: Float64, first: int, last: int) -> None:
        slot = (self._done_blocks * BASE) // self.block_rows
        if slot >= MAX_BLOCKS:
            pairs = self._sums[:, :, :MAX_BLOCKS].reshape(4, -1, MAX_BLOCKS // 2, 2)
            merged = pairs[..., 0] + pairs[..., 1]
            self._sums[...] = 0.0
            self._sums[:, :, : MAX_BLOCKS // 2] = merged
            self.block_first[: MAX_BLOCKS // 2] = self.block_first[:MAX_BLOCKS:2]
            self.block_last[: MAX_BLOCKS // 2] = self.block_last[1:MAX_BLOCKS:2]
            self.block_rows *= 2
            slot = (self._done_blocks * BASE) // self.block_rows
        if slot >= self.blocks or slot * self.block_rows == self._done_blocks * BASE:
            self.block_first[slot] = first
        self._sums[:, : stats.shape[1], slot] += stats
        self.block_last[slot] = last
        self.blocks = slot + 1
        self._done_blocks += 1

    _done_blocks: int = 0

    def recent(self, metric: str, k: int) -> tuple[Int64, Float64]:
        """Return the last k rows (at most WINDOW): steps int64, values float64 with NaN = not logged."""
        k = min(k, WINDOW, self.n)
        used = slice(self._fill - k, self._fill)
        at = self.names.get(metric)
        values = np.full(k, np.nan) if at is None else self._window[at, used].copy()
        return self._steps[used].copy(), values

    def block_sums(self, metric: str) -> Float64 | None:
        """Return float64[4, blocks]: count, sum, count x median, sum of squares; None for an unknown metric."""
        at = self.names.get(metric)
        return None if at is None else self._sums[:, at, : self.blocks]


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
