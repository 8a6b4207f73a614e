"""A rollout fact: what is counted over rollouts, in parts that merge, and the per-step series that come out of it.

`fold(batch)` turns a batch into `Sums` keyed by step (and group, family ...), `Sums.merge` joins the parts of any
number of batches, files or workers, and `finish(sums)` reduces them to one value per step and metric. Counts merge
exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from rlvitals.rollouts.table import Batch
from rlvitals.schema import Example, Float64, Int64

Keys = tuple[npt.NDArray[np.int64] | npt.NDArray[np.object_], ...]
Series = Mapping[str, tuple[Int64, Float64]]
"""metric -> (steps int64[k] strictly increasing, values float64[k])."""

_REDUCE: Mapping[str, np.ufunc] = {"sum": np.add, "min": np.minimum, "max": np.maximum}


def codes(values: npt.NDArray[np.object_]) -> tuple[Int64, list[str | None]]:
    """Return (int64[rows] number of each text, the texts in order of appearance); None is a text of its own."""
    held = values.tolist()  # no Python code runs per value below: dumps have millions
    texts = list(dict.fromkeys(held))
    number = dict(zip(texts, range(len(texts)), strict=True))
    return np.fromiter(map(number.__getitem__, held), dtype=np.int64, count=len(held)), texts


def _ranks(key: npt.NDArray[np.int64] | npt.NDArray[np.object_]) -> Int64:
    """Return numbers that sort as the key does; texts sort by themselves, None before them."""
    if key.dtype != object:
        return np.asarray(key, dtype=np.int64)
    at, texts = codes(np.asarray(key, dtype=object))
    rank = np.empty(len(texts), dtype=np.int64)
    rank[sorted(range(len(texts)), key=lambda i: (texts[i] is not None, texts[i] or ""))] = np.arange(len(texts))
    return np.asarray(rank[at])


def _runs(keys: Keys) -> tuple[Int64, Int64]:
    """Return (order int64[rows] that sorts by the keys, starts of the runs of equal keys in that order)."""
    ranks = [_ranks(k) for k in keys]
    order = np.lexsort(ranks[::-1])
    new = np.zeros(order.size, dtype=bool)
    new[0] = True
    for rank in ranks:
        line = rank[order]
        new[1:] |= line[1:] != line[:-1]
    return order, np.flatnonzero(new)


@dataclass(frozen=True)
class Sums:
    """Values reduced over rows that share their keys.

    Args:
        keys: one array[rows] per key; the first is the step. Text keys are object arrays of str.
        values: name -> float64[rows]; counts are exact up to 2**53.
        how: name -> "sum", "min" or "max"; names left out are summed.
    """

    keys: Keys
    values: Mapping[str, Float64]
    how: Mapping[str, str]

    @property
    def rows(self) -> int:
        return int(self.keys[0].shape[0]) if self.keys else 0

    def take(self, rows: npt.NDArray[np.bool_]) -> Sums:
        """Return some of the rows: bool[rows]."""
        return Sums(tuple(k[rows] for k in self.keys), {n: v[rows] for n, v in self.values.items()}, self.how)

    @classmethod
    def of(cls, keys: Keys, values: Mapping[str, Float64], how: Mapping[str, str] | None = None) -> Sums:
        """Reduce rows to one per distinct key, in key order."""
        how = how or {}
        rows = int(keys[0].shape[0])
        if rows == 0:
            return cls(keys, dict(values), how)
        order, starts = _runs(keys)
        reduced = {n: _REDUCE[how.get(n, "sum")].reduceat(v[order], starts) for n, v in values.items()}
        return cls(tuple(k[order][starts] for k in keys), reduced, how)

    @classmethod
    def merge(cls, parts: Sequence[Sums]) -> Sums:
        """Join parts of the same fact; the result does not depend on how the rollouts were divided, counts exactly."""
        filled = [p for p in parts if p.rows]
        if not filled:
            return parts[0]
        if len(filled) == 1:
            return filled[0]
        names = sorted({n for p in filled for n in p.values})
        how = {n: h for p in filled for n, h in p.how.items()}
        empty = {"sum": 0.0, "min": np.inf, "max": -np.inf}

        def column(p: Sums, name: str) -> Float64:
            found = p.values.get(name)
            return found if found is not None else np.full(p.rows, empty[how.get(name, "sum")])

        keys = tuple(np.concatenate([p.keys[i] for p in filled]) for i in range(len(filled[0].keys)))
        return cls.of(keys, {n: np.concatenate([column(p, n) for p in filled]) for n in names}, how)


class Apart(Enum):
    """How far a step's values stand apart from other steps, so that the sums of old steps need not be kept."""

    STEPS = "steps"  # they depend on that step alone
    FEW_LABELS = "few labels"  # so too, while no more labels are there than get a series: keys[1] is the label
    NEVER = "never"  # they depend on the whole run


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is counted over rollouts.

    Attributes:
        name: kebab-case.
        reads: columns of the table it needs; where one is missing in a batch, that batch counts nothing.
        reads_text: it looks at text, so it sees a stratified sample (at most 64 per step) unless told otherwise.
        fold: batch -> sums.
        finish: merged sums -> series.
        metrics: names of the series, for the table of metrics; open families end in "/*".
        examples: batch and its sums -> rollouts worth showing, a few per step; None where there is nothing to show.
        also: columns that it uses where they are there; "reward_part/*" stands for all components.
        apart: how far the values of a step depend on the other steps.
    """

    name: str
    reads: tuple[str, ...]
    fold: Callable[[Batch], Sums]
    finish: Callable[[Sums], Series]
    metrics: tuple[str, ...]
    reads_text: bool = False
    examples: Callable[[Batch, Sums], tuple[Example, ...]] | None = None
    also: tuple[str, ...] = ()
    apart: Apart = Apart.STEPS
