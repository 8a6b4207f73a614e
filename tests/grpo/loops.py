"""A run small enough for tests: an untrained model of a few thousand weights, and a task it has some success on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rlvitals.env import Item, Message, Step, VerifierStatus
from rlvitals.grpo import tiny
from rlvitals.grpo.config import Config
from rlvitals.grpo.models import Policy
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.tasks.base import Task

SHAPE = tiny.Recipe(hidden=16, layers=1, heads=2, ff=16, positions=64)
CONFIG = Config(
    recipe="grpo", steps=6, prompts=4, group_size=4, max_tokens=6, lr=1e-2, eval_every=3, eval_items=4, save_every=2,
    minibatches=2, epochs=2,
)  # fmt: skip
TIMES = {"step_time_s", "tokens_per_second", "extra/sample_s", "extra/score_s", "extra/update_s", "extra/memory_mb",
         "extra/verifier_seconds_max"}  # fmt: skip


class HasSeven:
    """Right when the completion has a 7 in it."""

    version = "has-seven@1"

    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        return item.messages

    def step(self, text: str) -> Step:
        right = "7" in text
        return Step((), {"correct": float(right)}, text, VerifierStatus.RIGHT if right else VerifierStatus.WRONG)


def items(first: int, count: int) -> tuple[Item, ...]:
    """Prompts of unequal length, in two tiers."""
    return tuple(
        Item(f"item-{i}", (Message("user", "1" * (1 + i % 3) + f"+{i}="),), family="sevens", tier=str(1 + i % 2))
        for i in range(first, first + count)
    )


def sevens(config: Config, tokenizer: Any) -> Task:
    return Task("sevens", HasSeven.version, items(0, 24), items(100, 8), HasSeven, max_new_tokens=6)


def untrained(config: Config) -> Policy:
    return Policy(tiny.new_model(SHAPE).eval(), tiny.new_tokenizer(), "untrained")


PARTS = Parts(model=untrained, task=sevens, held_out=sevens)


def one_thread() -> None:
    torch.set_num_threads(1)


def config(**changes: Any) -> Config:
    return replace(CONFIG, **changes)


def rows(folder: Path) -> list[dict[str, float]]:
    """Return the logged rows without what depends on the clock."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in TIMES} for line in lines]
