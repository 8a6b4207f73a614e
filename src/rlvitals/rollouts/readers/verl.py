"""verl: `rollout_data_dir/<step>.jsonl` and `validation_data_dir/<step>.jsonl`, of the old and the new trainer.

The new trainer writes `uid` = <prompt>_<rollout>_<output>; the old one writes none and shuffles the rows, so that a
group is told by its prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rlvitals.rollouts.readers import aliases, heads, sql
from rlvitals.rollouts.readers.base import Head, Reader, Request
from rlvitals.rollouts.readers.sql import Raw
from rlvitals.rollouts.table import Batch

_KEYS = ("input", "output", "gts", "score", "step", "uid", "request_id", "acc", "pred", "data_source", "reward",
         "num_turns", "finish_reason", "stop_reason", "response_length")  # fmt: skip
_MEANINGFUL = frozenset(
    {"uid", "pred"}
)  # a dump that lacks them is read otherwise: groups by prompt, answers from text
_NO_PART = frozenset({*_KEYS, "index", "reward_model_name"})
_VALIDATION = re.compile(r"(?:^|/)[^/]*val[^/]*/[^/]+$", re.IGNORECASE)
_UID = r"^(.*)_[0-9]+_[0-9]+$"


def _accepts(head: Head) -> bool:
    return head.suffix in (".jsonl", ".ndjson") and head.has("input", "output", "score", "step")


def _evaluation(head: Head) -> bool:
    return _VALIDATION.search(head.place) is not None


def _select(raw: Raw) -> Mapping[str, str | None]:
    out = aliases.flat(raw)
    out["reward"] = raw.number("score")
    out["prompt_id"] = aliases.text_key(raw.text("input"))
    out["completion_id"] = aliases.text_key(raw.text("output"))
    if raw.has("uid"):
        out["group"] = f"nullif(regexp_replace(uid, {sql.literal(_UID)}, '\\1'), '')"
        out["index"] = "try_cast(regexp_extract(uid, '_([0-9]+)_[0-9]+$', 1) AS BIGINT)"
    else:
        out["group"] = None
    for name in raw.types:
        if name not in _NO_PART:
            out[aliases.part(name)] = raw.number(name)
    return out


def read(paths: Sequence[Path], request: Request) -> Iterator[Batch]:
    found = heads.numeric_keys(paths[0])
    extras = [key for key, numeric in found.items() if numeric and key not in _NO_PART]
    keys = [key for key in _KEYS if key in found or key not in _MEANINGFUL]
    return sql.read(paths, [*keys, *extras], _select, request)


READER = Reader("verl rollouts", _accepts, read, _evaluation, step_in_name=True)
