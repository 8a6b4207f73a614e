"""A judge whose score grows with the length of the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.rewards.plan import Completion, Part, RewardPlan
from rlvitals.grpo.tasks.base import Task
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength


def inject(given: Injection) -> tuple[Config, Parts]:
    inner = given.parts.task

    def task(config: Config, tokenizer: Any) -> Task:
        found = inner(config, tokenizer)

        def length(completion: Completion) -> float:
            return len(completion.ids) / completion.budget

        return replace(found, plan=RewardPlan((*found.plan.parts, Part("judge", given.value, length)), found.plan.rule))

    return given.config, replace(given.parts, task=task)


FAULT = Fault(
    name="judge-likes-length",
    broken="Half of the reward is a judge's score, and the judge likes long answers.",
    place=Place.REWARD,
    inject=inject,
    strengths=(Strength("weight 1", 1.0, Harm.NONE),),
    roots=("R008",),
    signs=("R003", "L002"),
    allowed=("L001", "L004", "H001", "H002", "H003", "S001", "K001", "R014", "R009", "L006", "O003"),
    fix="Take the length out of the judge: compare answers of one group at equal correctness.",
    steps=160,
)
