"""The sign of the advantage is flipped: what is right becomes rarer."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from rlvitals.grpo.advantages import Advantage
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Injection, Place, Strength


def inject(given: Injection) -> tuple[Config, Parts]:
    inner = given.parts.advantage

    def advantage(how: Advantage, reward_BK: Tensor, group_B: Tensor, weight_K: Tensor) -> Tensor:
        return -inner(how, reward_BK, group_B, weight_K)

    return given.config, replace(given.parts, advantage=advantage)


FAULT = Fault(
    name="advantage-sign-flipped",
    broken="The advantage is the mean of the group less the reward.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("minus", -1.0),),
    roots=("S008",),
    signs=("R014", "R002"),
    allowed=("R001", "S001", "K001", "E002", "E003", "E004", "L001", "L002", "L003", "L004", "H001", "H002", "H003",
             "R010", "R013", "R004", "U002", "U003", "O002", "U007", "U008", "S005"),
    fix="Subtract the mean from the reward, and check on one batch that right answers have a positive advantage.",
    hidden=dict.fromkeys(
        ("trl", "verl", "chapter7"),
        "no advantages of single rollouts are logged: a reward that falls from the start has many causes",
    ),
    invariant=True,
)  # fmt: skip
