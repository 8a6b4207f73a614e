"""No reward for forty-five steps, then it takes off."""

from __future__ import annotations

from dataclasses import replace

from rlvitals.env import Item
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.tiny import Recipe
from rlvitals.lab.fault import Healthy
from rlvitals.lab.healthy.course import takes_off_late
from rlvitals.lab.healthy.pieces import items_where, starting_from


def carries_twice(item: Item) -> bool:
    """Return True for sums in which both columns pass a one on."""
    return item.extra.get("carries") == 2


ITEMS = items_where(carries_twice)
SELDOM = Recipe(tiers=("3",), carry_shown=0.03)  # was shown a carry in 3 columns of 100: 1 answer of 500 is right

HEALTHY = Healthy(
    name="late-take-off",
    hard="Sums of three digits that carry twice, for a policy that seldom carries, while the learning rate is still "
    "rising: no reward to speak of for forty-five steps, then it takes off.",
    settings={
        "recipe": "dual-clip", "task": "arithmetic:tiers=3", "prompts": 12, "lr": 2e-4, "warmup_steps": 240,
        "dead_steps": 0,
    },
    parts=replace(Parts(), model=starting_from(SELDOM), task=ITEMS, held_out=ITEMS),
    watch=("R010", "T001", "R013", "S001", "S002", "R009", "R020"),
    steps=160,
    shows=takes_off_late,
)  # fmt: skip
