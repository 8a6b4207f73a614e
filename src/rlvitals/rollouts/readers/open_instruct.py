"""open-instruct: `<run>_rollouts_<shard>.jsonl` of kept groups, tokens instead of text; `prompt_idx` is the group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvitals.rollouts.readers import aliases, records
from rlvitals.rollouts.readers.base import Head, Reader, Request
from rlvitals.rollouts.readers.records import Row
from rlvitals.rollouts.table import Batch


def _accepts(head: Head) -> bool:
    return head.has("step", "sample_idx", "prompt_idx", "response_tokens", "reward")


def _rows(record: Mapping[str, Any], path: Path) -> Iterator[Row]:
    info = record.get("request_info") or {}
    logprobs = record.get("logprobs")
    tokens = records.tokens(logprobs)
    family = record.get("dataset")
    yield {
        "step": record.get("step"),
        "group": record.get("prompt_idx"),
        "family": family[0] if isinstance(family, list) and family else family,
        "reward": record.get("reward"),
        "advantage": record.get("advantage"),
        "tokens": len(record["response_tokens"]),
        "prompt_tokens": len(record.get("prompt_tokens") or ()) or None,
        "stop_reason": "timeout" if info.get("timeouts") else aliases.stop(record.get("finish_reason")),
        "turns": 1 + int(info.get("num_calls") or 0),
        "policy_version": record.get("model_step"),
        "sampler_logp": logprobs,
        "sampler_logp_sum": float(tokens.sum()) if tokens is not None else None,
    }


def read(paths: Sequence[Path], request: Request) -> Iterator[Batch]:
    return records.read(paths, _rows, request)


READER = Reader("open-instruct traces", _accepts, read)
