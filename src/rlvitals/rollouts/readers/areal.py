"""AReaL: `{rollout,eval-rollout}/<version>/<task>.jsonl`; the group is the task, whose rollouts end in several folders.

The dump has no training step. A task is trained on when its last rollout is there, so the step is the newest version
among the task's rollouts: the 0-based step of the log, when no batch waits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvitals.rollouts.readers import records
from rlvitals.rollouts.readers.base import Head, Reader, Request
from rlvitals.rollouts.readers.columnwise import hashed
from rlvitals.rollouts.readers.records import Row
from rlvitals.rollouts.readers.steps import step_of
from rlvitals.rollouts.table import Batch

_VERSION = re.compile(r"/(\d+)/[^/]+\.jsonl$")
GUESSED = "kept: the dump has no training step: the newest policy version of a group stands for it"


def _accepts(head: Head) -> bool:
    return head.has("task_id", "sample_idx", "tail_version", "reward", "completion")


def _evaluation(head: Head) -> bool:
    return "eval-rollout/" in head.place


def read(paths: Sequence[Path], request: Request) -> Iterator[Batch]:
    newest: dict[str, int] = {}
    for path in paths:
        version = step_of(path, _VERSION)
        if version is not None:
            newest[path.stem] = max(newest.get(path.stem, 0), version)
    ordered = sorted(paths, key=lambda p: (newest.get(p.stem, 0), p.stem, step_of(p, _VERSION) or 0))

    def rows(record: Mapping[str, Any], path: Path) -> Iterator[Row]:
        length, prompt = records.whole(record.get("seqlen")), records.whole(record.get("prompt_len"))
        yield {
            "step": newest.get(path.stem, record.get("tail_version")),
            "group": record["task_id"],
            "index": record.get("sample_idx"),
            "prompt_id": hashed(record.get("prompt")),
            "split": "eval" if "eval-rollout" in path.parts else "train",
            "prompt": record.get("prompt"),
            "completion": record.get("completion"),
            "reward": record.get("reward"),
            "tokens": length - prompt if length is not None and prompt is not None else None,
            "prompt_tokens": prompt,
            "policy_version": record.get("head_version"),
        }

    request.skips.add(GUESSED, str(ordered[0]) if ordered else "", 0, 1)
    return records.read(ordered, rows, request)


READER = Reader("AReaL rollouts", _accepts, read, _evaluation, together=True)
