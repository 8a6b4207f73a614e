"""Atropos: one scored group per line; there is no training step, so groups are numbered in file order.

A prompt token has the mask -100 and the log-probability 1.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvitals.rollouts.readers import records
from rlvitals.rollouts.readers.base import Head, Reader, Request
from rlvitals.rollouts.readers.records import Row
from rlvitals.rollouts.readers.texts import joined
from rlvitals.rollouts.table import Batch

MASKED = -100  # of a prompt token (definition in the dump's format)
PROMPT_LOGPROB = 1.0  # stands where a token has no log-probability
NUMBERED = "kept: a dump of scored groups without a training step: numbered in file order"


def _accepts(head: Head) -> bool:
    lists = (head.record.get("scores"), head.record.get("tokens"), head.record.get("masks"))
    return all(isinstance(value, list) and value for value in lists) and not head.has("step")


def _at(record: Mapping[str, Any], key: str, i: int) -> Any:
    found = record.get(key)
    return found[i] if isinstance(found, list) and i < len(found) else None


def read(paths: Sequence[Path], request: Request) -> Iterator[Batch]:
    seen = 0

    def rows(record: Mapping[str, Any], path: Path) -> Iterator[Row]:
        nonlocal seen
        seen += 1
        for i, score in enumerate(record["scores"]):
            mask = _at(record, "masks", i) or ()
            messages = _at(record, "messages", i)
            said = messages if isinstance(messages, list) else []
            logprobs = [
                float(v)
                for v in _at(record, "inference_logprobs", i) or ()
                if isinstance(v, int | float) and v != PROMPT_LOGPROB and v <= 0.0
            ]
            advantage = _at(record, "advantages", i)
            yield {
                "step": seen,
                "group": str(seen),
                "index": i,
                "prompt": joined([m for m in said if m.get("role") in ("user", "system")]) or None,
                "completion": joined(said, ("assistant",)) or None,
                "reward": score,
                "advantage": advantage[-1] if isinstance(advantage, list) and advantage else advantage,
                "tokens": sum(token != MASKED for token in mask) or None,
                "prompt_tokens": sum(token == MASKED for token in mask) or None,
                "sampler_logp": logprobs or None,
                "sampler_logp_sum": sum(logprobs) if logprobs else None,
            }

    request.skips.add(NUMBERED, str(paths[0]), 0, 1)
    return records.read(paths, rows, request)


READER = Reader("Atropos groups", _accepts, read, steps_elsewhere=True, together=True)
