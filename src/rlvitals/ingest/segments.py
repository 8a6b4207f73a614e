"""Row order made honest: rewinds close segments, repeated steps are merged with the last value winning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rlvitals.schema import Float64, Int64, Segment

LONG_START = 20  # rows; a replaced start of at least this many rows counts as another run, a shorter one as aborted


@dataclass(frozen=True)
class Split:
    """Which rows survive the rewinds.

    Args:
        rows: int64[K], surviving row numbers in file order; their steps never decrease.
        rewinds: (row number, step it went back to), in file order.
        segments: what was replaced.
        repeated: rows whose step was logged again by the next row.
    """

    rows: Int64
    rewinds: tuple[tuple[int, int], ...]
    segments: tuple[Segment, ...]
    repeated: int


def split(step: Int64, rows: Int64) -> Split:
    """Split rows (int64[N], with their steps int64[N]) at each step that goes back."""
    change = np.diff(step)
    back = np.flatnonzero(change < 0) + 1
    repeated = int(np.count_nonzero(change == 0))
    if back.size == 0:
        return Split(rows, (), (), repeated)
    starts = [0, *back.tolist()]
    ends = [*back.tolist(), step.size]
    kept: list[tuple[int, int]] = []  # [start, end) of the surviving pieces
    segments: list[Segment] = []
    rewinds: list[tuple[int, int]] = []
    for start, end in zip(starts, ends, strict=True):
        resumed = int(step[start])
        removed, last = 0, resumed
        first_gone = resumed
        while kept and step[kept[-1][1] - 1] >= resumed:
            a, b = kept.pop()
            cut = a + int(np.searchsorted(step[a:b], resumed, side="left"))
            last = max(last, int(step[b - 1]))
            first_gone = int(step[cut])
            removed += b - cut
            if cut > a:
                kept.append((a, cut))
        if removed:
            segments.append(Segment(first_gone, last, removed, resumed, reason_of(not kept, removed, resumed)))
            rewinds.append((int(rows[start]), resumed))
        kept.append((start, end))
    index = np.concatenate([np.arange(a, b) for a, b in kept])
    return Split(rows[index], tuple(rewinds), tuple(segments), repeated)


def reason_of(whole: bool, removed: int, resumed: int) -> str:
    """Say why rows were replaced; `whole` = nothing of what came before is left."""
    if not whole:
        return "rewind"
    if removed < LONG_START:
        return "aborted start"
    return "other run in the same file" if resumed <= 1 else "rewind"


def merge_repeats(step: Int64, columns: Mapping[str, Float64]) -> tuple[Int64, dict[str, Float64]]:
    """Merge rows of the same step: per column the last logged value wins. `step` must not decrease."""
    if step.size < 2 or bool(np.all(np.diff(step) > 0)):
        return step, dict(columns)
    starts = np.flatnonzero(np.concatenate([[True], np.diff(step) > 0]))
    position = np.arange(step.size)
    out: dict[str, Float64] = {}
    for name, column in columns.items():
        last = np.maximum.reduceat(np.where(np.isnan(column), -1, position), starts)
        out[name] = np.where(last >= 0, column[np.maximum(last, 0)], np.nan)
    return step[starts], out


def outer_join(
    a_step: Int64, a: Mapping[str, Float64], b_step: Int64, b: Mapping[str, Float64]
) -> tuple[Int64, dict[str, Float64]]:
    """Join two series by step; where both hold a value, the first wins."""
    step = np.union1d(a_step, b_step)
    at_a, at_b = np.searchsorted(step, a_step), np.searchsorted(step, b_step)
    out: dict[str, Float64] = {}
    for name in [*a, *(n for n in b if n not in a)]:
        column = np.full(step.size, np.nan)
        if name in b:
            column[at_b] = b[name]
        if name in a:
            values = a[name]
            logged = ~np.isnan(values)
            column[at_a[logged]] = values[logged]
        out[name] = column
    return step, out
