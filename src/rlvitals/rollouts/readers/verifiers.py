"""verifiers' evaluations, old form: `results.jsonl`, one rollout per line; no training step, so step 0 and held-out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvitals.rollouts.readers import aliases, records
from rlvitals.rollouts.readers.base import Head, Reader, Request
from rlvitals.rollouts.readers.records import Row
from rlvitals.rollouts.readers.texts import joined
from rlvitals.rollouts.table import Batch


def _accepts(head: Head) -> bool:
    return head.has("example_id", "prompt", "completion", "reward") and not head.has("step")


def _rows(record: Mapping[str, Any], path: Path) -> Iterator[Row]:
    used = record.get("token_usage") or {}
    said = record.get("completion")
    metrics = {n: v for n, v in (record.get("metrics") or {}).items() if records.number(v) is not None}
    stopped = "budget" if record.get("is_truncated") else aliases.stop(record.get("stop_condition"))
    yield {
        "step": 0,
        "group": record["example_id"],
        "prompt_id": record["example_id"],
        "family": record.get("task"),
        "split": "eval",
        "prompt": joined(record.get("prompt")),
        "completion": joined(said, ("assistant",)) if isinstance(said, list) else said,
        "turns": sum(m.get("role") == "assistant" for m in said) if isinstance(said, list) else None,
        "gold": record.get("answer"),
        "reward": record.get("reward"),
        "correct": next((v for n, v in metrics.items() if aliases.judges(n)), None),
        "verifier_status": "error" if record.get("error") else None,
        "tokens": used.get("output_tokens"),
        "prompt_tokens": used.get("input_tokens"),
        "stop_reason": "error" if record.get("error") else stopped,
        **{aliases.part(name): value for name, value in metrics.items()},
    }


def read(paths: Sequence[Path], request: Request) -> Iterator[Batch]:
    return records.read(paths, _rows, request)


READER = Reader("verifiers results", _accepts, read, lambda head: True)
