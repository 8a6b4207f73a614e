"""NeMo-RL: `train_data_step<N>.jsonl` and `val_data_step<N>.jsonl`; every value stands in a list of length 1.

There is no group id: the rollouts of a prompt follow one another. Log-probabilities count where the token mask is 1.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvitals.rollouts.readers import records
from rlvitals.rollouts.readers.base import Head, Reader, Request
from rlvitals.rollouts.readers.records import Row
from rlvitals.rollouts.readers.steps import step_of
from rlvitals.rollouts.readers.texts import joined
from rlvitals.rollouts.table import Batch

_STEP = re.compile(r"(?:train|val)_data_step(\d+)")


def _accepts(head: Head) -> bool:
    return head.has("content", "rewards") and _STEP.search(head.place) is not None


def _evaluation(head: Head) -> bool:
    return "val_data_step" in head.place


def _one(value: object) -> object:
    """Unwrap a list of length 1."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _kept(values: object, mask: object) -> list[float] | None:
    found, keep = _one(values), _one(mask)
    if not isinstance(found, list):
        return None
    if not isinstance(keep, list) or len(keep) != len(found):
        return None
    return [float(v) for v, k in zip(found, keep, strict=True) if k] or None


def _rows(record: Mapping[str, Any], path: Path) -> Iterator[Row]:
    content = _one(record.get("content"))
    prompt, completion = _texts(content)
    mask = record.get("token_loss_mask")
    sampler = _kept(record.get("generation_logprobs"), mask)
    trainer = _kept(record.get("prev_logprobs"), mask)
    advantages = _kept(record.get("advantages"), mask)
    kept = _one(mask)
    tokens = sum(bool(v) for v in kept) if isinstance(kept, list) else None
    length = records.whole(record.get("input_lengths"))
    yield {
        "step": step_of(path, _STEP),
        "prompt_id": hashlib.md5(prompt.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:16],
        "split": "eval" if "val_data_step" in path.name else "train",
        "prompt": prompt,
        "completion": completion,
        "reward": records.number(_one(record.get("rewards"))),
        "advantage": advantages[0] if advantages else None,
        "tokens": tokens,
        "prompt_tokens": length - tokens if length is not None and tokens is not None else None,
        "family": _one(record.get("agent_ref")) if isinstance(_one(record.get("agent_ref")), str) else None,
        "sampler_logp": sampler,
        "trainer_logp": trainer,
        **records.gap(sampler, trainer),
    }


def _texts(content: object) -> tuple[str, str]:
    """Return (prompt, completion) of a pair of texts, a list of messages or one text."""
    if isinstance(content, list) and content and all(isinstance(c, dict) for c in content):
        speaking = ("assistant", "model")
        return joined([m for m in content if m.get("role") in ("user", "system")]), joined(content, speaking)
    if isinstance(content, list) and content and all(isinstance(c, str) for c in content):
        return content[0], "\n".join(content[1:])
    return ("", content) if isinstance(content, str) else ("", "")


def read(paths: Sequence[Path], request: Request) -> Iterator[Batch]:
    return records.read(paths, _rows, request)


READER = Reader("NeMo-RL data", _accepts, read, _evaluation, step_in_name=True)
