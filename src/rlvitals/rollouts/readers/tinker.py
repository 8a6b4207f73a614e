"""tinker-cookbook: `iteration_<b>/<split>_rollout_summaries.jsonl`, and texts of the first groups from the logtree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvitals.rollouts.readers import aliases, records
from rlvitals.rollouts.readers.base import Head, Reader, Request
from rlvitals.rollouts.readers.records import Row
from rlvitals.rollouts.table import Batch

_GROUP = re.compile(r"^\s*Group (\d+)\b")
MAX_DEPTH = 64  # levels of a logtree that are read


def _accepts(head: Head) -> bool:
    return head.has("iteration", "group_idx", "traj_idx", "total_reward")


def _evaluation(head: Head) -> bool:
    return Path(head.place).name.startswith(("eval", "test"))


def texts_of(path: Path, request: Request) -> dict[int, list[str]]:
    """Return group -> the paragraphs that a logtree holds under its heading, in order."""
    tree = path.with_name(path.name.replace("_rollout_summaries.jsonl", "_logtree.json"))
    out: dict[int, list[str]] = {}
    if tree == path or not tree.is_file():
        return out
    current: list[int | None] = [None]
    for _, record in records.objects(tree, request):
        _walk(record.get("root"), out, current, 0)
    return out


def _walk(node: object, out: dict[int, list[str]], current: list[int | None], depth: int) -> None:
    if not isinstance(node, dict) or depth > MAX_DEPTH:
        return
    children = node.get("children")
    for child in children if isinstance(children, list) else ():
        if isinstance(child, str):
            heading = _GROUP.match(child) if str(node.get("tag", "")).startswith("h") else None
            if heading is not None and len(heading[1]) < 10:
                current[0] = int(heading[1])
            elif node.get("tag") in ("p", "pre", "code") and current[0] is not None:
                out.setdefault(current[0], []).append(child)
        else:
            _walk(child, out, current, depth + 1)


def read(paths: Sequence[Path], request: Request) -> Iterator[Batch]:
    texts: dict[Path, dict[int, list[str]]] = {}

    def rows(record: Mapping[str, Any], path: Path) -> Iterator[Row]:
        if path not in texts:
            texts.clear()  # files come one after the other
            texts[path] = texts_of(path, request) if request.wants("completion") else {}
        yield _row(record, texts[path])

    return records.read(paths, rows, request)


def _row(record: Mapping[str, Any], texts: Mapping[int, Sequence[str]]) -> Row:
    steps = record.get("steps") or []
    tags = record.get("tags") or []
    group, index = int(record["group_idx"]), int(record["traj_idx"])
    told = texts.get(group, ())
    parts: dict[str, float] = {}
    for step in steps:
        for name, value in (step.get("metrics") or {}).items():
            found = records.number(value)
            if found is not None:
                parts[name] = found
    judged = next((value for name, value in parts.items() if aliases.judges(name)), None)
    return {
        "step": record.get("iteration"),
        "group": group,
        "index": index,
        "family": tags[0] if tags else None,
        "split": "train" if record.get("split", "train") == "train" else "eval",
        "completion": told[index] if index < len(told) else None,
        "turns": len(steps),
        "reward": record.get("total_reward"),
        "correct": judged,
        "tokens": sum(int(s.get("ac_len") or 0) for s in steps) or None,
        "prompt_tokens": steps[0].get("ob_len") if steps else None,
        "stop_reason": None if not steps or steps[-1].get("episode_done") else "budget",
        "policy_version": record.get("sampling_client_step"),
        **{aliases.part(name): value for name, value in parts.items()},
    }


READER = Reader("tinker-cookbook summaries", _accepts, read, _evaluation, reads_beside=True)
