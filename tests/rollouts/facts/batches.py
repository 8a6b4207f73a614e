"""Small rollout batches for the tests of facts, and what a fact says of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlvitals.rollouts.fact import Fact, Sums
from rlvitals.rollouts.fold import fold
from rlvitals.rollouts.table import MISSING, Batch, Kind, kind_of


def batch(**columns: Any) -> Batch:
    """Return a batch; a single value stands for all rows, None for "not there"."""
    rows = max(len(c) for c in columns.values() if isinstance(c, list | np.ndarray))
    out = {}
    for name, given in ({"step": 1} | columns).items():
        values = list(given) if isinstance(given, list | np.ndarray) else [given] * rows
        kind = kind_of(name)
        if kind is Kind.INTEGER:
            out[name] = np.array([MISSING if v is None else v for v in values], dtype=np.int64)
        elif kind is Kind.NUMBER:
            out[name] = np.array([np.nan if v is None else v for v in values], dtype=np.float64)
        else:
            column = np.empty(rows, dtype=object)
            for i, v in enumerate(values):
                column[i] = v
            out[name] = column
    return Batch(rows, out)


def groups(count: int, size: int) -> dict[str, list[Any]]:
    """Return the group and index columns of `count` groups of `size` rollouts, one after the other."""
    return {
        "group": [f"g{i}" for i in range(count) for _ in range(size)],
        "index": list(range(size)) * count,
    }


def says(fact: Fact, *batches: Batch) -> dict[str, dict[int, float]]:
    """Return metric (without "rollouts/") -> step -> value, folded over whole batches without a text sample."""
    found = fold(batches, (fact,), text_sample=None).series()
    return {
        name.removeprefix("rollouts/"): dict(zip(steps.tolist(), values.tolist(), strict=True))
        for name, (steps, values) in found.items()
        if "text_sampled" not in name
    }


def merges(fact: Fact, whole: Batch, cut: int) -> bool:
    """True when a fact says the same of a batch and of its two parts."""
    parts = [whole.take(slice(0, cut)), whole.take(slice(cut, whole.rows))]
    one, two = fact.finish(fact.fold(whole)), fact.finish(Sums.merge([fact.fold(p) for p in parts]))
    return one.keys() == two.keys() and all(
        np.array_equal(one[n][0], two[n][0]) and np.allclose(one[n][1], two[n][1], rtol=1e-12, atol=1e-12) for n in one
    )
