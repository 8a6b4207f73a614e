"""No baseline, and divided by the spread of the group: a group that agrees explodes."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from rlvitals.grpo.advantages import STD_EPS, Advantage, group_sum_B, groups
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Injection, Place, Strength


def inject(given: Injection) -> tuple[Config, Parts]:
    def advantage(how: Advantage, reward_BK: Tensor, group_B: Tensor, weight_K: Tensor) -> Tensor:
        reward_B = (reward_BK * weight_K).sum(dim=1)
        found = groups(reward_B, group_B)
        std_B = (group_sum_B(found.centred_B.square(), group_B) / (found.size_B - 1)).sqrt()
        return reward_B / (std_B + STD_EPS)

    return given.config, replace(given.parts, advantage=advantage)


FAULT = Fault(
    name="baseline-missing-scaled",
    broken="Rewards are divided by the spread of their group without subtracting its mean.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("reward over spread", 1.0),),
    roots=("S003", "S002", "S008"),
    allowed=("U002", "U010", "K001", "E001", "O002", "S001", "R014", "R010", "R002", "H001", "H002", "H003", "U003"),
    fix="Subtract the mean of each group before dividing.",
    invariant=True,
    hidden={"trl": "no statistic of the advantages is logged"},
)
