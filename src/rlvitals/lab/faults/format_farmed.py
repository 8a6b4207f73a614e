"""A format reward per tag: writing tags over and over pays more than being right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.rewards.plan import Completion, Part, RewardPlan
from rlvitals.grpo.tasks.base import Task
from rlvitals.lab.fault import Fault, Injection, Place, Strength


def tags(completion: Completion) -> float:
    """Return one per tag that was written: the fault."""
    return float(completion.text.count("<think>") + completion.text.count("</think>"))


def inject(given: Injection) -> tuple[Config, Parts]:
    inner = given.parts.task

    def task(config: Config, tokenizer: Any) -> Task:
        found = inner(config, tokenizer)
        paid = Part("format", given.value, tags)
        return replace(found, plan=RewardPlan((*found.plan.parts, paid), found.plan.rule))

    return given.config, replace(given.parts, task=task)


FAULT = Fault(
    name="format-farmed",
    broken="The format reward counts tags instead of asking for one pair.",
    place=Place.REWARD,
    inject=inject,
    strengths=(Strength("0.5 per tag", 0.5),),
    roots=("R003", "R018"),
    signs=("H001", "H002"),
    allowed=("L002", "L001", "L004", "H003", "S001", "K001", "O002", "R009", "R012", "R014", "E001", "L006", "O004"),
    fix="Pay for exactly one pair of tags, once, and only beside a right answer.",
    steps=160,
)
