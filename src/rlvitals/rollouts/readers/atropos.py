"""Atropos: one scored group per line; there is no training step, so groups are numbered in file order.

A prompt token has the mask -100 and the log-probability 1.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvitals.rollouts.readers import records
from rlvitals.rollouts.readers.base import Reader, Request
from rlvitals.rollouts.readers.records import Row
from rlvitals.rollouts.readers.texts import joined
from rlvitals.rollouts.table import Batch

MASKED = -100  # of a prompt token (definition in the dump's format)
PROMPT_LOGPROB = 1.0  # stands where a token has no log-probability
NUMBERED = "kept: a dump of scored groups without a training step: numbered in file order"


@dataclass(frozen=True, slots=True)
class Scored:
    """One rollout of a group: score, advantage as written, tokens (None without a mask), log-probabilities.

    `logprobs` holds those of the sampled tokens under the sampler, in nats; () where they were not kept.
    """

    score: float | None
    advantage: object
    tokens: int | None
    prompt_tokens: int | None
    logprobs: tuple[float, ...]


def is_group(record: Mapping[str, object]) -> bool:
    """True for a record with the scores, tokens and masks of several rollouts."""
    lists = (record.get("scores"), record.get("tokens"), record.get("masks"))
    return all(isinstance(value, list) and value for value in lists) and "step" not in record


def scored(record: Mapping[str, Any]) -> tuple[Scored, ...]:
    """Return the rollouts of a group, () for a record without any score: it is no group and gets no number."""
    scores = [records.number(value) for value in _list(record.get("scores")) or ()]
    if all(score is None for score in scores):
        return ()
    return tuple(_scored(record, i, score) for i, score in enumerate(scores))


def _scored(record: Mapping[str, Any], i: int, score: float | None) -> Scored:
    mask, advantage = _list(_at(record, "masks", i)), _at(record, "advantages", i)
    prompt = None if mask is None else mask.count(MASKED)
    logprobs = map(records.number, _list(_at(record, "inference_logprobs", i)) or ())
    return Scored(
        score,
        advantage[-1] if isinstance(advantage, list) and advantage else advantage,
        None if mask is None or prompt is None else len(mask) - prompt,
        prompt,
        tuple(v for v in logprobs if v is not None and v != PROMPT_LOGPROB and v <= 0.0),
    )


def _at(record: Mapping[str, Any], key: str, i: int) -> Any:
    found = record.get(key)
    return found[i] if isinstance(found, list) and i < len(found) else None


def _list(value: object) -> list[Any] | None:
    return value if isinstance(value, list) else None


def read(paths: Sequence[Path], request: Request) -> Iterator[Batch]:
    seen = 0

    def rows(record: Mapping[str, Any], path: Path) -> Iterator[Row]:
        nonlocal seen
        rollouts = scored(record)
        if not rollouts:
            raise ValueError("no group")
        seen += 1
        for i, rollout in enumerate(rollouts):
            said = _list(_at(record, "messages", i)) or []
            yield {
                "step": seen,
                "group": str(seen),
                "index": i,
                "prompt": joined([m for m in said if m.get("role") in ("user", "system")]) or None,
                "completion": joined(said, ("assistant",)) or None,
                "reward": rollout.score,
                "advantage": rollout.advantage,
                "tokens": rollout.tokens or None,
                "prompt_tokens": rollout.prompt_tokens or None,
                "sampler_logp": list(rollout.logprobs) or None,
                "sampler_logp_sum": sum(rollout.logprobs) if rollout.logprobs else None,
            }

    request.skips.add(NUMBERED, str(paths[0]), 0, 1)
    return records.read(paths, rows, request)


READER = Reader("Atropos groups", lambda head: is_group(head.record), read, steps_elsewhere=True, together=True)
