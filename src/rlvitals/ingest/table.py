"""RawTable: what a reader makes of one file, still in the trainer's own keys; TableBuilder fills one row by row."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rlvitals.ingest.values import number
from rlvitals.schema import Event, Float64, Int64, Note

Bool = npt.NDArray[np.bool_]

MAX_DEPTH = 6  # levels of nested dicts that are flattened
MAX_TEXT = 200  # characters kept of a text value
MAX_SPARSITY = 50  # dense cells per logged value, above which the rarest keys are left out: bounds memory
MIN_CELLS = 2_000_000  # tables below this many cells (16 MB) are never cut
WRAPPERS = ("data", "metrics", "logs")  # {"step": 1, "data": {...}}: verl's and rLLM's file sinks


@dataclass(frozen=True)
class RawTable:
    """Rows of one file.

    Args:
        rows: N.
        columns: raw key -> float64[N]; NaN = not logged in that row.
        nonfinite: raw key -> bool[N], True where NaN or Infinity was logged; only keys that have any.
        lines: int64[N], 1-based line (or record) numbers.
        shape: int64[N], index into `shapes`: which keys the row carried.
        texts: keys whose values are text -> (how many rows, first value).
        text: free text around the rows (console output, notebook source), for the config printed in it.
        facts: what the file says besides its rows, e.g. trainer_state's `max_steps`.
    """

    source: str
    rows: int
    columns: Mapping[str, Float64]
    nonfinite: Mapping[str, Bool]
    lines: Int64
    shape: Int64
    shapes: tuple[tuple[str, ...], ...]
    texts: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    events: tuple[Event, ...] = ()
    text: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)

    def keys(self) -> frozenset[str]:
        return frozenset(self.columns) | frozenset(self.texts)


class _Group:
    """Rows with exactly the same numeric keys, stored flat."""

    __slots__ = ("rows", "values", "width")

    def __init__(self, width: int) -> None:
        self.width = width
        self.values = array("d")
        self.rows = array("q")


class TableBuilder:
    """Collects rows and turns them into columns; fast for rows with the same keys as the row before."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._groups: dict[tuple[str, ...], _Group] = {}
        self._last_keys: list[str] = []
        self._last = _Group(0)
        self._lines = array("q")
        self._texts: dict[str, tuple[int, str]] = {}
        self._logged = 0

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, row: Mapping[str, object], line: int) -> bool:
        """Append one record (nested dicts are flattened with "/"); False when it holds no number."""
        for name in WRAPPERS:
            inner = row.get(name)
            if isinstance(inner, dict) and len(row) <= 4:
                row = {**{k: v for k, v in row.items() if k != name}, **inner}
                break
        keys = list(row)
        group = self._last if keys == self._last_keys else self._find(keys)
        size = len(group.values)
        try:
            group.values.extend(row.values())  # type: ignore[arg-type]
        except (TypeError, OverflowError):  # a text, null, list or nested value somewhere in the row
            del group.values[size:]
            return self._add_mixed(row, line)
        if not keys:
            return False
        self._append(group, line)
        return True

    def _find(self, keys: list[str]) -> _Group:
        group = self._groups.get(tuple(keys))
        if group is None:
            group = self._groups[tuple(keys)] = _Group(len(keys))
        self._last_keys, self._last = keys, group
        return group

    def _append(self, group: _Group, line: int) -> None:
        group.rows.append(len(self._lines))
        self._lines.append(line)
        self._logged += group.width

    def _add_mixed(self, row: Mapping[str, object], line: int) -> bool:
        flat: dict[str, float] = {}
        self._flatten(row, "", flat, 0)
        if not flat:
            return False
        keys = tuple(flat)
        group = self._groups.get(keys)
        if group is None:
            group = self._groups[keys] = _Group(len(keys))
        group.values.extend(flat.values())
        self._append(group, line)
        return True

    def _flatten(self, row: Mapping[str, object], prefix: str, out: dict[str, float], depth: int) -> None:
        for name, value in row.items():
            key = prefix + str(name)
            found = number(value, key)
            if found is not None:
                out[key] = found
            elif isinstance(value, dict):
                if depth < MAX_DEPTH and not isinstance(value.get("_type"), str):  # W&B's tables, images, histograms
                    self._flatten(value, key + "/", out, depth + 1)
            elif isinstance(value, str) and value.strip():
                count, first = self._texts.get(key, (0, value[:MAX_TEXT]))
                self._texts[key] = (count + 1, first)

    def build(
        self,
        notes: tuple[Note, ...] = (),
        events: tuple[Event, ...] = (),
        text: str = "",
        facts: Mapping[str, object] | None = None,
    ) -> RawTable:
        """Return the table; the builder is empty afterwards."""
        n = len(self._lines)
        groups = {keys: group for keys, group in self._groups.items() if group.rows}
        dropped = _too_sparse(groups, n, self._logged)
        if dropped:
            notes = (*notes, Note(f"{len(dropped)} rare keys left out to bound memory", self.source, 0, len(dropped)))
        columns: dict[str, Float64] = {}
        nonfinite: dict[str, Bool] = {}
        shape = np.zeros(n, dtype=np.int64)
        for index, (keys, group) in enumerate(groups.items()):
            rows = np.frombuffer(group.rows, dtype=np.int64)
            shape[rows] = index
            block = np.frombuffer(group.values, dtype=np.float64).reshape(rows.size, group.width)
            _scatter(keys, block, rows, n, dropped, columns, nonfinite)
        lines = np.array(self._lines, dtype=np.int64)
        shapes = tuple(groups)
        self._groups, self._lines, self._last_keys = {}, array("q"), []
        return RawTable(
            self.source,
            n,
            columns,
            nonfinite,
            lines,
            shape,
            shapes,
            dict(self._texts),
            notes,
            events,
            text,
            facts or {},
        )


def _too_sparse(groups: Mapping[tuple[str, ...], _Group], n: int, logged: int) -> frozenset[str]:
    """Return the rarest keys whose dense columns would cost far more memory than the input holds."""
    count: dict[str, int] = {}
    for keys, group in groups.items():
        for key in keys:
            count[key] = count.get(key, 0) + len(group.rows)
    allowed = max(MIN_CELLS, MAX_SPARSITY * logged) // max(n, 1)
    ordered = sorted(count, key=lambda key: -count[key])
    return frozenset(ordered[allowed:])


def _scatter(
    keys: tuple[str, ...],
    block: Float64,
    rows: Int64,
    n: int,
    dropped: frozenset[str],
    columns: dict[str, Float64],
    nonfinite: dict[str, Bool],
) -> None:
    bad: Bool = np.logical_not(np.isfinite(block))
    any_bad: Bool = np.asarray(bad.any(axis=0))
    for j, key in enumerate(keys):
        if key in dropped:
            continue
        values = block[:, j]
        column = columns.get(key)
        if column is None:
            column = columns[key] = values.copy() if rows.size == n else np.full(n, np.nan)
        if rows.size != n:
            column[rows] = values
        if any_bad[j]:
            mask = nonfinite.setdefault(key, np.zeros(n, dtype=np.bool_))
            mask[rows[bad[:, j]]] = True
            column[rows[bad[:, j]]] = np.nan
