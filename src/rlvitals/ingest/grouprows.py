"""Scored groups of Atropos as a step log: one line is one group, read as rollouts/readers does, and becomes one row.

The file carries no training step, so its groups are numbered in file order.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from rlvitals.ingest.table import RawTable, TableBuilder
from rlvitals.rollouts.readers.atropos import Scored, scored
from rlvitals.schema import Note


class GroupRows:
    """Collects groups; tokens are counted, not kept."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.rows = 0
        self._builder = TableBuilder(source)

    def add(self, row: Mapping[str, object], line: int) -> None:
        rollouts = scored(row)
        if not rollouts:
            return
        self.rows += 1
        scores = [rollout.score for rollout in rollouts if rollout.score is not None]
        cells = {"group": self.rows, **_scores(scores), **_lengths(rollouts), **_surprisal(rollouts)}
        self._builder.add(cells, line)

    def build(self, notes: tuple[Note, ...]) -> RawTable:
        """Return one row per group."""
        text = f"a dump of {self.rows} scored groups without a training step: numbered in file order"
        return self._builder.build((Note(text, self.source, 0, self.rows), *notes))


def _scores(scores: Sequence[float]) -> dict[str, object]:
    finite = all(map(math.isfinite, scores))
    return {
        "group/score_mean": statistics.fmean(scores),
        "group/score_std": statistics.pstdev(scores) if finite else math.nan,
        "group/score_min": min(scores),
        "group/score_max": max(scores),
        "group/tied": float(max(scores) == min(scores)),
    }


def _lengths(rollouts: Sequence[Scored]) -> dict[str, object]:
    """Return completion lengths: the tokens that the mask lets through."""
    lengths = [rollout.tokens for rollout in rollouts if rollout.tokens is not None]
    if not lengths:
        return {}
    return {
        "group/length_mean": statistics.fmean(lengths),
        "group/length_min": min(lengths),
        "group/length_max": max(lengths),
    }


def _surprisal(rollouts: Sequence[Scored]) -> dict[str, object]:
    """Return the mean surprisal of the sampled tokens under the sampler, where it was kept."""
    found = [-logprob for rollout in rollouts for logprob in rollout.logprobs]
    return {"group/surprisal": sum(found) / len(found)} if found else {}
