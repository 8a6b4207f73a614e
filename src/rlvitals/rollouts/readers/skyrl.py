"""SkyRL: `dumped_evals/global_step_<N>_evals/<data source>.jsonl`; the training dump is a pickle and is not opened."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvitals.rollouts.readers import aliases, records
from rlvitals.rollouts.readers.base import Head, Reader, Request
from rlvitals.rollouts.readers.columnwise import hashed
from rlvitals.rollouts.readers.records import Row
from rlvitals.rollouts.readers.steps import step_of
from rlvitals.rollouts.table import Batch

_STEP = re.compile(r"global_step_(\d+)_")


def _accepts(head: Head) -> bool:
    return head.has("input_prompt", "output_response", "score")


def _score(value: object) -> float | None:
    """Return a score, or the sum of scores per token."""
    if isinstance(value, list):
        found = [records.number(v) for v in value]
        return sum(v for v in found if v is not None) if any(v is not None for v in found) else None
    return records.number(value)


def _rows(record: Mapping[str, Any], path: Path) -> Iterator[Row]:
    extras = record.get("env_extras") or {}
    asked = (extras.get("reward_spec") or {}) if isinstance(extras, dict) else {}
    yield {
        "step": step_of(path, _STEP),
        "group": hashed(str(record.get("input_prompt"))),
        "prompt_id": hashed(str(record.get("input_prompt"))),
        "family": record.get("data_source"),
        "split": "eval",
        "prompt": record.get("input_prompt"),
        "completion": record.get("output_response"),
        "gold": asked.get("ground_truth") if isinstance(asked, dict) else None,
        "reward": _score(record.get("score")),
        "stop_reason": aliases.stop(record.get("stop_reason")),
    }


def read(paths: Sequence[Path], request: Request) -> Iterator[Batch]:
    return records.read(paths, _rows, request)


READER = Reader("SkyRL evaluations", _accepts, read, lambda head: True)
