"""The wrong key groups rollouts: each is compared with rollouts of other prompts."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rlvitals.grpo.advantages import Advantage
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength


def inject(given: Injection) -> tuple[Config, Parts]:
    inner = given.parts.advantage

    def advantage(how: Advantage, reward_BK: Tensor, group_B: Tensor, weight_K: Tensor) -> Tensor:
        """Take the rollouts as if they lay prompt by prompt within an index, and not index by index."""
        count = int(group_B.max()) + 1
        return inner(how, reward_BK, torch.arange(group_B.numel()) % count, weight_K)

    return given.config, replace(given.parts, advantage=advantage)


FAULT = Fault(
    name="group-key-wrong",
    broken="Rewards are reshaped with the axes swapped: a group holds rollouts of eight prompts.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("axes swapped", 1.0, Harm.NONE),),
    roots=("S008", "S003"),
    allowed=("S006", "S001", "R010", "H003"),
    settings={"task": "arithmetic:tiers=1+2"},
    fix="Group by the prompt.",
    invariant=True,
    hidden=dict.fromkeys(
        ("trl", "verl", "chapter7"), "the advantages of a group are not logged, and over the batch they are centred"
    ),
)
