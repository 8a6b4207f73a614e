"""What several facts do the same way: reduce runs of rows to groups, turn sums into series, pick examples.

`fold` hands over training rollouts with a step only, so that no fact has to leave out others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import repeat
from operator import is_not

import numpy as np
import numpy.typing as npt

from rlvitals.rollouts.fact import Keys, Series, Sums
from rlvitals.rollouts.table import ROW, Batch
from rlvitals.schema import Example, Float64, Int64

Mask = npt.NDArray[np.bool_]
Labels = npt.NDArray[np.object_]
MAX_NAMES = 32  # members of an open family that one step may bring: names come from the data, so they are bounded
NAME_CHARS = 60
EXCERPT_CHARS = 400
EXAMPLES_PER_STEP = 3
TOP_SHARE = 1e-9  # of the spread: two rewards this close are equal
_REDUCE: Mapping[str, np.ufunc] = {"sum": np.add, "min": np.minimum, "max": np.maximum}


def present(column: Labels) -> Mask:
    """Return bool[rows]: the text is there and not empty."""
    return np.asarray(column.astype(bool))


def known(column: Labels) -> Mask:
    """Return bool[rows]: the text is there, be it empty."""
    return np.fromiter(map(is_not, column.tolist(), repeat(None)), dtype=bool, count=column.shape[0])


def is_one(column: Labels, *wanted: str) -> Mask:
    """Return bool[rows]: the text is one of these."""
    hit = np.zeros(column.shape[0], dtype=bool)
    for value in wanted:
        hit |= np.asarray(column == value, dtype=bool)
    return hit


def by_step(batch: Batch, keep: Mask, values: Mapping[str, Float64], how: Mapping[str, str] | None = None) -> Sums:
    """Reduce the kept rows to one per step."""
    return Sums.of((batch.integer("step")[keep],), {n: v[keep] for n, v in values.items()}, how)


def by_label(
    batch: Batch,
    keep: Mask,
    labels: Labels,
    values: Mapping[str, Float64],
    how: Mapping[str, str] | None = None,
    more: Keys = (),
) -> Sums:
    """Reduce the kept rows to one per step, label and further keys; neighbouring rows with equal keys come first.

    Rollouts of one group stand next to each other in nearly every dump, so that few labels are left to sort.
    """
    how = how or {}
    keys: Keys = (batch.integer("step")[keep], labels[keep], *(k[keep] for k in more))
    kept = {n: v[keep] for n, v in values.items()}
    rows = int(keys[0].shape[0])
    if rows == 0:
        return Sums(keys, kept, how)
    changed = np.zeros(rows, dtype=bool)
    changed[0] = True
    for key in keys:
        changed[1:] |= np.asarray(key[1:] != key[:-1], dtype=bool)
    starts = np.flatnonzero(changed)
    reduced = {n: _REDUCE[how.get(n, "sum")].reduceat(v, starts) for n, v in kept.items()}
    return Sums.of(tuple(k[starts] for k in keys), reduced, how)


def steps_of(sums: Sums) -> Int64:
    return np.asarray(sums.keys[0], dtype=np.int64)


def again(sums: Sums, values: Mapping[str, Float64], how: Mapping[str, str] | None = None) -> Sums:
    """Reduce values that were computed per group once more, to one row per step."""
    return Sums.of((steps_of(sums),), values, how)


def series(steps: Int64, values: Float64) -> tuple[Int64, Float64]:
    """Return the finite part of a series."""
    keep = np.isfinite(values)
    return steps[keep], values[keep]


def ratio(sums: Sums, top: str, bottom: str, *, least: float = 1.0) -> tuple[Int64, Float64]:
    """Return top / bottom per row where the bottom is at least `least`; a step with less is left out."""
    n = sums.values[bottom]
    with np.errstate(invalid="ignore", divide="ignore"):
        return series(steps_of(sums), np.where(n >= least, sums.values[top] / n, np.nan))


def named(sums: Sums, prefix: str, value: Callable[[Sums], Float64], label: int = 1) -> Series:
    """Return one series per label of a key, named `prefix` + label: the MAX_NAMES first ones in order of size.

    Labels are cut and cleaned: they come from the data and become names of metrics.
    """
    if not sums.rows:
        return {}
    found, labels = value(sums), sums.keys[label].astype(str)
    count = sums.values.get("n", np.ones(sums.rows))
    out: dict[str, tuple[Int64, Float64]] = {}
    size = {str(x): float(count[labels == x].sum()) for x in np.unique(labels)}
    for text in sorted(size, key=lambda x: (-size[x], x))[:MAX_NAMES]:
        at = labels == text
        steps, values = series(steps_of(sums)[at], found[at])
        name = prefix + clean(text)
        if steps.size and name not in out:
            out[name] = (steps, values)
    return out


def clean(text: str) -> str:
    """Return a label as a name of a metric: printable, no separators, at most NAME_CHARS characters."""
    kept = "".join(c if c.isprintable() and c not in "/*" else "_" for c in text)
    return kept[:NAME_CHARS] or "_"


def sd(n: Float64, total: Float64, square: Float64, ddof: int = 0) -> Float64:
    """Return the standard deviation from sums, NaN for too few values; differences at rounding size are 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        left = square - total**2 / n
        left = np.where(left <= 1e-12 * np.maximum(square, 1e-300), 0.0, left)
        return np.asarray(np.sqrt(np.where(n > ddof, left / (n - ddof), np.nan)))


def excerpt(text: str | None, at: int | None = None) -> str:
    """Return a bounded piece of a text: around a place, or its end, where an answer stands."""
    if not text:
        return ""
    if len(text) <= EXCERPT_CHARS:
        return text
    if at is None:
        return "... " + text[-EXCERPT_CHARS:]
    begin = max(0, min(at - EXCERPT_CHARS // 2, len(text) - EXCERPT_CHARS))
    return ("... " if begin else "") + text[begin : begin + EXCERPT_CHARS] + " ..."


def pick(batch: Batch, hit: Mask, shows: str, *, rank: Float64 | None = None) -> tuple[Example, ...]:
    """Return at most EXAMPLES_PER_STEP examples per step among the rows that hit, those of highest rank first.

    Ties go by (group, index), so that the choice does not depend on the order of the rows.
    """
    rows = np.flatnonzero(hit)
    if rows.size == 0:
        return ()
    step, group, index = batch.integer("step"), batch.text("group"), batch.integer("index")
    score = np.zeros(batch.rows) if rank is None else np.nan_to_num(rank, nan=-np.inf)
    chosen: dict[int, list[int]] = {}
    for i in sorted(rows, key=lambda i: (-score[i], str(group[i]), int(index[i]))):
        taken = chosen.setdefault(int(step[i]), [])
        if len(taken) < EXAMPLES_PER_STEP:
            taken.append(int(i))
    return tuple(shown(batch, i, shows) for s in sorted(chosen) for i in chosen[s])


def shown(batch: Batch, at: int, shows: str, text: str | None = None) -> Example:
    """Return one rollout as an example; `text` stands for the end of its completion, where the answer is."""
    found = batch.example(shows, at)
    return replace(found, excerpt=excerpt(batch.text("completion")[at]) if text is None else text)


def rows_of(batch: Batch) -> Float64:
    """Return float64[rows]: the place of each rollout in its file."""
    at = batch.columns[ROW] if ROW in batch.columns else batch.first_row + np.arange(batch.rows)
    return np.asarray(at, dtype=np.float64)
