"""No baseline: the advantage is the reward itself, less a constant."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from rlvitals.grpo.advantages import Advantage
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength


def inject(given: Injection) -> tuple[Config, Parts]:
    def advantage(how: Advantage, reward_BK: Tensor, group_B: Tensor, weight_K: Tensor) -> Tensor:
        return (reward_BK * weight_K).sum(dim=1) - given.value

    return given.config, replace(given.parts, advantage=advantage)


FAULT = Fault(
    name="baseline-missing",
    broken="The mean of the group is not subtracted from the reward.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("reward", 0.0, Harm.MILD), Strength("reward less 1", 1.0, Harm.MILD)),
    roots=("S003", "S002", "S008"),
    allowed=("R010", "S001", "E001", "O002", "K001", "H003"),
    fix="Subtract the mean of each group.",
    invariant=True,
    hidden={"trl": "no statistic of the advantages is logged"},
)
