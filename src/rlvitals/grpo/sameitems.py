"""Whether a resumed run gets the items that it began with: what a checkpoint notes of them, and how others differ.

Prompts are drawn by an item's place among those of its tier, so other items, or the same ones in another order, would
be another run under the same name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from rlvitals.env import Item
from rlvitals.errors import Problem
from rlvitals.grpo.tasks.base import Task

NAMED = 50_000  # items of a side that are noted one by one, so that what differs can be named (convention)
SHOWN = 5  # ids that are named of each kind of difference (convention)
SIDES: Mapping[str, str] = {"train": "training items", "held_out": "held-out items"}


def noted(train: Task, held_out: Task) -> dict[str, Any]:
    """Return what a checkpoint keeps of the items on both sides, as JSON types."""
    return {"train": _side(train.train), "held_out": _side(held_out.held_out)}


def unlike(before: Mapping[str, Any], now: Mapping[str, Any], where: str) -> list[Problem]:
    """Return how the items differ from those that a checkpoint notes, a problem per side."""
    return [
        Problem(f"the {called} are not those of the checkpoint", where, _difference(before[side], now[side]),
                "the same items in the same order", "Put the data back as it was, or start anew in another --out")
        for side, called in SIDES.items()
        if before[side]["digest"] != now[side]["digest"]
    ]  # fmt: skip


def _side(items: Sequence[Item]) -> dict[str, Any]:
    """Return how many items there are, a digest of all in their order, and id and digest of each, None for too many."""
    each = [[i.id, _digest(i)] for i in items]
    whole = hashlib.sha256("".join(mark for _, mark in each).encode()).hexdigest()[:16]
    return {"count": len(each), "digest": whole, "each": each if len(each) <= NAMED else None}


def _digest(item: Item) -> str:
    """Return 8 hex digits of everything that the item asks and is judged by."""
    told = [item.id, [[m.role, m.content] for m in item.messages], item.gold, item.family, item.tier, item.extra]
    # of what is no JSON the type alone: its text may hold an address, which is another in each process
    text = json.dumps(told, skipkeys=True, default=lambda x: dict(x) if isinstance(x, Mapping) else type(x).__name__)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if before["each"] is None or now["each"] is None:
        return f"{now['count']:,} items, {before['count']:,} in the checkpoint"
    old, new = dict(before["each"]), dict(now["each"])
    kinds = {
        "added": [i for i in new if i not in old],
        "removed": [i for i in old if i not in new],
        "changed": [i for i in old if i in new and old[i] != new[i]],
    }
    said = [f"{len(ids):,} {kind} ({_named(ids)})" for kind, ids in kinds.items() if ids]
    return ", ".join(said) or "the same ones in another order"


def _named(ids: Sequence[str]) -> str:
    more = ", ..." if len(ids) > SHOWN else ""
    return ", ".join(repr(i) for i in ids[:SHOWN]) + more
