"""ROLL and ms-swift: JSON objects of columns, one list per key, all of the same length."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from rlvitals.rollouts.readers import aliases, records
from rlvitals.rollouts.readers.base import Head, Reader, Request
from rlvitals.rollouts.readers.records import Row
from rlvitals.rollouts.table import Batch

_SWIFT_KNOWN = frozenset({"step", "gen_step", "prompt", "completion", "advantages", "solution", "num_turns", "entropy"})


def _roll(head: Head) -> bool:
    return head.has("global_step", "prompt", "responses", "scores") and isinstance(head.record.get("scores"), list)


def _swift(head: Head) -> bool:
    return head.has("step", "prompt", "completion") and isinstance(head.record.get("completion"), list)


def _columns(record: Mapping[str, Any]) -> tuple[int, dict[str, list[Any]]]:
    """Return the rows and the lists that have them. Raises ValueError for columns of different lengths."""
    lists = {key: value for key, value in record.items() if isinstance(value, list)}
    lengths = {len(value) for value in lists.values() if value}
    if len(lengths) != 1:
        raise ValueError("columns of different lengths")
    return lengths.pop(), {key: value for key, value in lists.items() if value}


def hashed(text: object) -> str | None:
    if not isinstance(text, str):
        return None
    return hashlib.md5(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:16]


def _roll_rows(record: Mapping[str, Any], path: Path) -> Iterator[Row]:
    rows, lists = _columns(record)
    for i in range(rows):
        at = {key: value[i] for key, value in lists.items()}
        settings = _settings(at.get("sampling_params"))
        yield {
            "step": at.get("global_step"),
            "group": at.get("id"),
            "prompt_id": hashed(at.get("prompt")),
            "family": at.get("tag") or at.get("domain"),
            "tier": at.get("difficulty"),
            "prompt": at.get("prompt"),
            "completion": at.get("responses"),
            "gold": at.get("ground_truth"),
            "reward": at.get("scores"),
            "temperature": settings.get("temperature"),
            "top_p": settings.get("top_p"),
            "token_budget": settings.get("max_new_tokens"),
        }


def _settings(value: object) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return {}
    return value if isinstance(value, dict) else {}


def _swift_rows(record: Mapping[str, Any], path: Path) -> Iterator[Row]:
    rows, lists = _columns(record)
    parts = [
        key
        for key, values in lists.items()
        if key not in _SWIFT_KNOWN and all(v is None or isinstance(v, int | float) for v in values)
    ]
    for i in range(rows):
        at = {key: value[i] for key, value in lists.items()}
        scores = {key: records.number(at[key]) for key in parts}
        known = [v for v in scores.values() if v is not None and v == v]
        yield {
            "step": at.get("step"),
            "prompt_id": hashed(at.get("prompt")),
            "prompt": at.get("prompt"),
            "completion": at.get("completion"),
            "gold": at.get("solution"),
            "advantage": at.get("advantages"),
            "turns": at.get("num_turns"),
            "entropy_mean": at.get("entropy"),
            "reward": sum(known) if known else None,
            "correct": next((v for key, v in scores.items() if aliases.judges(key)), None),
            **{aliases.part(key): value for key, value in scores.items()},
        }


def _read_roll(paths: Sequence[Path], request: Request) -> Iterator[Batch]:
    return records.read(paths, _roll_rows, request)


def _read_swift(paths: Sequence[Path], request: Request) -> Iterator[Batch]:
    return records.read(paths, _swift_rows, request)


ROLL = Reader("ROLL rollout dump", _roll, _read_roll, step_in_name=True)
MS_SWIFT = Reader("ms-swift completions", _swift, _read_swift, weights_unknown=True)
