"""rLLM: `episodes/{train|val}_step_<s>_epoch_<e>/episode_*.json`, one file per episode; its id is <task>:<rollout>."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvitals.rollouts.readers import aliases, records
from rlvitals.rollouts.readers.base import Head, Reader, Request
from rlvitals.rollouts.readers.records import Row
from rlvitals.rollouts.readers.steps import step_of
from rlvitals.rollouts.table import Batch

_FOLDER = re.compile(r"(?:train|val)_step_(\d+)_epoch_")


def _accepts(head: Head) -> bool:
    return head.has("episode_id", "trajectories", "termination_reason")


def _evaluation(head: Head) -> bool:
    return "val_step_" in head.place


def _rows(record: Mapping[str, Any], path: Path) -> Iterator[Row]:
    task, _, number = str(record["episode_id"]).rpartition(":")
    asked = record.get("task") or {}
    for trajectory in record.get("trajectories") or ():
        steps = trajectory.get("steps") or []
        versions = [s["weight_version"] for s in steps if s.get("weight_version") is not None]
        yield {
            "step": record.get("training_step", step_of(path, _FOLDER)),
            "group": task or record.get("task_hash"),
            "index": number if number.isdigit() else None,
            "prompt_id": record.get("task_hash"),
            "family": asked.get("data_source"),
            "split": "eval" if "val_step_" in path.as_posix() else "train",
            "prompt": asked.get("question"),
            "completion": "\n".join(str(s.get("model_response") or "") for s in steps),
            "turns": len(steps),
            "gold": asked.get("ground_truth"),
            "reward": trajectory.get("reward"),
            "correct": record.get("is_correct"),
            "stop_reason": _stop(record.get("termination_reason")),
            "policy_version": min(versions) if versions else None,
        }


def _stop(reason: object) -> str | None:
    return None if reason == "unknown" else aliases.stop(reason)


def read(paths: Sequence[Path], request: Request) -> Iterator[Batch]:
    return records.read(paths, _rows, request)


READER = Reader("rLLM episodes", _accepts, read, _evaluation, folder_is_step=True)
