"""Groups of one: each rollout is its own baseline, and nothing is better than anything."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from rlvitals.grpo.advantages import Advantage
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Injection, Place, Strength


def inject(given: Injection) -> tuple[Config, Parts]:
    def advantage(how: Advantage, reward_BK: Tensor, group_B: Tensor, weight_K: Tensor) -> Tensor:
        """Return the reward less the mean of a group that holds this one alone."""
        reward_B = (reward_BK * weight_K).sum(dim=1)
        return reward_B - reward_B

    return given.config, replace(given.parts, advantage=advantage)


FAULT = Fault(
    name="group-of-one",
    broken="The key of a group is unique to each rollout, so every advantage is 0.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("key per rollout", 1.0),),
    settings={"kl_coef": 0.0},
    roots=("S008", "S007", "S004"),
    signs=("S001", "U001"),
    allowed=("S005", "S006", "U007", "U008", "R010"),
    fix="Group by the prompt.",
    invariant=True,
)
