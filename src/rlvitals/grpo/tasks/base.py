"""What a task is to the trainer: items to train on, items held out, and an environment that scores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rlvitals.env import Env, Item
from rlvitals.grpo.rewards.plan import CORRECT_ONLY, RewardPlan


@dataclass(frozen=True, slots=True)
class Task:
    """A task ready to train on.

    Attributes:
        name: what `--task` calls it.
        version: identity of environment and verifier, for config.json and every rollout.
        train: items to draw prompts from, in a fixed order.
        held_out: items that are never trained on, in a fixed order; empty where the data had none.
        new_env: makes one environment; each trajectory gets its own.
        max_turns: assistant turns of one trajectory at most.
        max_new_tokens: a budget of completion tokens, over all turns, that right answers fit into.
        plan: reward parts and how they become one number.
        tiers: difficulty tiers from easy to hard; empty where there are none.
        gives: reward parts that the environment scores; a plan may use any of them.
        notes: what is odd about the items, a sentence each, to be told before the first step.
    """

    name: str
    version: str
    train: tuple[Item, ...]
    held_out: tuple[Item, ...]
    new_env: Callable[[], Env]
    max_turns: int = 1
    max_new_tokens: int = 512
    plan: RewardPlan = CORRECT_ONLY
    tiers: tuple[str, ...] = ()
    gives: tuple[str, ...] = ("correct",)
    notes: tuple[str, ...] = ()


def identity(name: str, *parts: object) -> str:
    """Return `name@` and the first 12 hex digits of a hash over the parts: equal parts, equal identity."""
    text = "\x1f".join(str(p) for p in parts)
    return f"{name}@{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def by_hash(key: str, *, held_out_percent: int) -> bool:
    """Say whether an item belongs to the held-out side: a property of its text alone, the same in every run."""
    return int(hashlib.md5(key.encode(), usedforsecurity=False).hexdigest(), 16) % 100 < held_out_percent


def split(items: Iterable[Item], *, held_out_percent: int) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """Return (train, held out) by a hash of each item's first messages; items with equal prompts stay on one side."""
    train: list[Item] = []
    held_out: list[Item] = []
    for item in items:
        key = "\x1f".join(m.content for m in item.messages)
        (held_out if by_hash(key, held_out_percent=held_out_percent) else train).append(item)
    return tuple(train), tuple(held_out)
