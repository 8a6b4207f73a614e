"""Steps that no rollout comes for any more: their series are kept and their sums let go, so that memory stays small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rlvitals.rollouts.fact import Apart, Fact, Series, Sums
from rlvitals.rollouts.facts.common import MAX_NAMES


@dataclass(frozen=True)
class Settled:
    """What is left of the old steps of one fact.

    Attributes:
        series: as `Fact.finish` gave them.
        labels: that the series are of, for facts with a series per label.
    """

    series: Series = field(default_factory=dict)
    labels: frozenset[str] = frozenset()

    @classmethod
    def merge(cls, parts: Sequence[Settled]) -> Settled:
        """Join parts of one fact that have no step in common, in order of their steps."""
        labels: frozenset[str] = frozenset().union(*(p.labels for p in parts))
        return cls(joined([p.series for p in parts]), labels)


def settle(fact: Fact, sums: Sums, before: int, known: Settled) -> tuple[Sums, Settled]:
    """Return the sums of the steps from `before` on, and what is settled with the steps below it.

    Sums of facts whose steps do not stand apart are returned as they are.
    """
    labels = known.labels
    if fact.apart is Apart.FEW_LABELS:
        labels = labels | frozenset(map(str, set(sums.keys[1].tolist())))
    if fact.apart is Apart.NEVER or len(labels) > MAX_NAMES:
        return sums, known
    old = np.asarray(sums.keys[0] < before, dtype=bool)
    if not old.any():
        return sums, known
    return sums.take(~old), Settled(joined([known.series, fact.finish(sums.take(old))]), labels)


def joined(parts: Sequence[Series]) -> Series:
    """Return series over several stretches of steps, each after the one before."""
    names = dict.fromkeys(name for part in parts for name in part)
    out = {}
    for name in names:
        lines = [part[name] for part in parts if name in part]
        steps, values = (np.concatenate([line[i] for line in lines]) for i in (0, 1))
        out[name] = (steps.astype(np.int64), values.astype(np.float64))
    return out


def settled_in(parts: Sequence[Mapping[str, Settled]]) -> dict[str, Settled]:
    """Return fact name -> what is settled in any of the parts."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: Settled.merge([part[name] for part in parts if name in part]) for name in names}


__all__ = ["Settled", "joined", "settle", "settled_in"]
