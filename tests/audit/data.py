"""Small tasks and rollouts for the audit tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlvitals.audit.rows import Row
from rlvitals.env import Item, Message


def item(i: int) -> Item:
    return Item(
        f"t{i}", (Message("user", f"What is {i} + {i + 5} ?"),), str(2 * i + 5), "sums", str(i % 3 + 1), {"n": i}
    )


def items(n: int = 6) -> tuple[Item, ...]:
    return tuple(item(i) for i in range(n))


def row(i: int = 0, **fields: object) -> Row:
    task = item(i)
    base: dict[str, object] = {
        "number": i, "messages": task.messages, "gold": task.gold, "id": task.id, "step": 1, "group": f"g{i}",
        "index": 0,
        "family": task.family,
    }  # fmt: skip
    return Row(**{**base, **fields})  # type: ignore[arg-type]


def write_jsonl(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return path


def task_file(path: Path, n: int = 6) -> Path:
    rows = [{"id": i.id, "question": i.messages[0].content, "answer": i.gold, "level": i.tier} for i in items(n)]
    return write_jsonl(path, rows)
