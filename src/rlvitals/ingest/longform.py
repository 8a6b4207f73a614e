"""Series kept key by key (TensorBoard, MLflow) as a table: one row per step, and a new run of rows at each rewind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rlvitals.ingest.table import MAX_SPARSITY, MIN_CELLS, Bool, RawTable
from rlvitals.schema import Event, Float64, Int64, Note

STEP = "step"  # the column of the steps; a logged key of that name is kept as "step (logged)"
MAX_REWINDS = 200  # in one file; more is noise, and the rest is read as one piece


@dataclass(frozen=True)
class Series:
    """One key: int64[K] order in which the values were logged, int64[K] steps, float64[K] values."""

    order: Int64
    step: Int64
    value: Float64

    def sorted(self) -> Series:
        if self.order.size < 2 or bool(np.all(np.diff(self.order) > 0)):
            return self
        by = np.argsort(self.order, kind="stable")
        return Series(self.order[by], self.step[by], self.value[by])


@dataclass(frozen=True)
class Rows:
    """One file's rows: int64[N] steps, and per key (int64[K] row numbers, float64[K] values)."""

    step: Int64
    cells: Mapping[str, tuple[Int64, Float64]]


def rows_of(series: Mapping[str, Series]) -> Rows:
    """Merge keys to rows by step; where a key's own step goes back, everything logged from there on is new rows."""
    ordered = {key: one.sorted() for key, one in series.items() if one.order.size}
    cuts = _rewinds(ordered)
    pieces = {key: np.searchsorted(one.order, cuts) for key, one in ordered.items()}
    steps: list[Int64] = []
    cells: dict[str, tuple[list[Int64], list[Float64]]] = {key: ([], []) for key in ordered}
    offset = 0
    for piece in range(cuts.size + 1):
        parts: dict[str, slice] = {}
        for key, at in pieces.items():
            first = int(at[piece - 1]) if piece else 0
            last = int(at[piece]) if piece < cuts.size else ordered[key].order.size
            if last > first:
                parts[key] = slice(first, last)
        axis = _union([ordered[key].step[part] for key, part in parts.items()])
        for key, part in parts.items():
            cells[key][0].append(np.searchsorted(axis, ordered[key].step[part]) + offset)
            cells[key][1].append(ordered[key].value[part])
        steps.append(axis)
        offset += axis.size
    return Rows(
        np.concatenate(steps),
        {key: (np.concatenate(at), np.concatenate(values)) for key, (at, values) in cells.items()},
    )


def _rewinds(series: Mapping[str, Series]) -> Int64:
    """Return int64[R]: the order numbers at which a restart began; keys of one restart share its first number."""
    found: list[tuple[int, int]] = []
    for one in series.values():
        back = np.flatnonzero(np.diff(one.step) < 0) + 1
        found += zip(one.order[back].tolist(), one.order[back - 1].tolist(), strict=True)
    cuts: list[int] = []
    for at, before in sorted(found):
        if (not cuts or before >= cuts[-1]) and len(cuts) < MAX_REWINDS:
            cuts.append(at)
    return np.array(cuts, dtype=np.int64)


def _union(axes: list[Int64]) -> Int64:
    """Return the steps of all keys, sorted; most keys have the very steps of the key before them."""
    distinct: list[Int64] = []
    for axis in axes:
        if not distinct or not np.array_equal(axis, distinct[-1]):
            distinct.append(axis)
    return np.unique(np.concatenate(distinct)) if distinct else np.zeros(0, dtype=np.int64)


def table_of(
    files: list[Rows],
    source: str,
    *,
    notes: tuple[Note, ...] = (),
    texts: Mapping[str, tuple[int, str]] | None = None,
    text: str = "",
    facts: Mapping[str, object] | None = None,
    events: tuple[Event, ...] = (),
) -> RawTable:
    """Return the rows of files, in their order, as one table with a "step" column."""
    step = np.concatenate([rows.step for rows in files]) if files else np.zeros(0, dtype=np.int64)
    n = step.size
    keys = list(dict.fromkeys(key for rows in files for key in rows.cells))
    count = {key: sum(rows.cells[key][0].size for rows in files if key in rows.cells) for key in keys}
    allowed = max(MIN_CELLS, MAX_SPARSITY * sum(count.values())) // max(n, 1)
    kept = set(sorted(keys, key=lambda key: -count[key])[:allowed])
    if len(kept) < len(keys):
        left = len(keys) - len(kept)
        notes = (*notes, Note(f"{left} rare keys left out to bound memory", source, 0, left))
    columns: dict[str, Float64] = {STEP: step.astype(np.float64)}
    nonfinite: dict[str, Bool] = {}
    names: list[str] = [STEP]
    packed = np.zeros((n, (len(kept) + 7) // 8), dtype=np.uint8)  # which keys each row carries, a bit each
    for key in keys:
        if key not in kept:
            continue
        name = key if key != STEP else f"{STEP} (logged)"
        column, logged = _column(files, key, n)
        bad = logged & ~np.isfinite(column)
        if bad.any():
            nonfinite[name] = bad
            column[bad] = np.nan
        bit = len(names) - 1
        packed[:, bit // 8] |= logged.astype(np.uint8) << np.uint8(7 - bit % 8)
        columns[name] = column
        names.append(name)
    shape, shapes = _shapes(packed, names)
    lines = np.arange(1, n + 1, dtype=np.int64)
    return RawTable(
        source, n, columns, nonfinite, lines, shape, shapes, texts or {}, notes, events, text, facts or {}
    )  # fmt: skip


def _column(files: list[Rows], key: str, n: int) -> tuple[Float64, Bool]:
    column, logged = np.full(n, np.nan), np.zeros(n, dtype=np.bool_)
    offset = 0
    for rows in files:
        if key in rows.cells:
            at, values = rows.cells[key]
            column[at + offset] = values  # of several values of one step the last one stays
            logged[at + offset] = True
        offset += rows.step.size
    return column, logged


def _shapes(packed: npt.NDArray[np.uint8], names: list[str]) -> tuple[Int64, tuple[tuple[str, ...], ...]]:
    if packed.shape[1] == 0 or packed.shape[0] == 0:
        return np.zeros(packed.shape[0], dtype=np.int64), ((STEP,),)
    whole = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1])))[:, 0]
    _, first, inverse = np.unique(whole, return_index=True, return_inverse=True)
    shapes = []
    for row in first.tolist():
        bits = np.unpackbits(packed[row], count=len(names) - 1)
        shapes.append((STEP, *(names[i + 1] for i in np.flatnonzero(bits).tolist())))
    return inverse.astype(np.int64).reshape(-1), tuple(shapes)
