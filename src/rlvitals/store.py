"""What is kept of the rows so far: the last ones exactly, a pyramid of block summaries of everything before.

`Store` takes rows in chunks of any size and always ends in the same state, bit for bit: that is what makes the live
verdict equal to the verdict on the same prefix of a file. Memory is bounded by the number of metrics, not of steps.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from rlvitals.schema import Float64, Int64

WINDOW = 512  # rows kept exactly
BASE = 8  # rows per smallest block
MAX_BLOCKS = 128  # blocks kept; when full, neighbours merge and the block size doubles
HUGE = 1e100  # beyond it a logged number is no measurement, and its square no number (definition of float64: 1e308)
HEAD = 32  # first finite values kept exactly: the run's own start level


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
