"""A dump of scored groups (Atropos) read as a step log: one line is one group, and becomes one row.

The file carries no training step, so its groups are numbered in file order.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from rlvitals.ingest.table import RawTable, TableBuilder
from rlvitals.ingest.values import number
from rlvitals.schema import Note

MASKED = -100  # of a prompt token (definition in the dump's format)
PROMPT_LOGPROB = 1.0  # stands where a token has no log-probability


def is_group(row: Mapping[str, object]) -> bool:
    """True for a record with the scores, tokens and masks of several rollouts."""
    lists = (row.get("scores"), row.get("tokens"), row.get("masks"))
    return all(isinstance(value, list) and value for value in lists) and "step" not in row


class GroupRows:
    """Collects groups; tokens are counted, not kept."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.rows = 0
        self._builder = TableBuilder(source)

    def add(self, row: Mapping[str, object], line: int) -> None:
        scores = [value for value in map(number, _list(row.get("scores"))) if value is not None]
        if not scores:
            return
        self.rows += 1
        self._builder.add({"group": self.rows, **_scores(scores), **_lengths(row), **_logprobs(row)}, line)

    def build(self, notes: tuple[Note, ...]) -> RawTable:
        """Return one row per group."""
        text = f"a dump of {self.rows} scored groups without a training step: numbered in file order"
        return self._builder.build((Note(text, self.source, 0, self.rows), *notes))


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _scores(scores: Sequence[float]) -> dict[str, object]:
    finite = all(map(math.isfinite, scores))
    return {
        "group/score_mean": statistics.fmean(scores),
        "group/score_std": statistics.pstdev(scores) if finite else math.nan,
        "group/score_min": min(scores),
        "group/score_max": max(scores),
        "group/tied": float(max(scores) == min(scores)),
    }


def _lengths(row: Mapping[str, object]) -> dict[str, object]:
    """Return completion lengths: the tokens that the mask lets through."""
    lengths = [sum(token != MASKED for token in mask) for mask in _list(row.get("masks")) if isinstance(mask, list)]
    if not lengths:
        return {}
    return {
        "group/length_mean": statistics.fmean(lengths),
        "group/length_min": min(lengths),
        "group/length_max": max(lengths),
    }


def _logprobs(row: Mapping[str, object]) -> dict[str, object]:
    """Return the mean surprisal under the sampler of the tokens that were sampled, where it was kept."""
    total = 0.0
    count = 0
    for rollout in _list(row.get("inference_logprobs")):
        for value in _list(rollout):
            logprob = number(value)
            if logprob is not None and logprob != PROMPT_LOGPROB and logprob <= 0.0:
                total -= logprob
                count += 1
    return {"group/surprisal": total / count} if count else {}
