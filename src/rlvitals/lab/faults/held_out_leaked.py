"""Held-out items are trained on: the score rises and says nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.tasks.base import Task
from rlvitals.lab.fault import Fault, Injection, Place, Strength


def inject(given: Injection) -> tuple[Config, Parts]:
    size = int(given.value)
    inner = given.parts.held_out

    def train(config: Config, tokenizer: Any) -> Task:
        found = inner(config, tokenizer)
        return replace(found, train=found.held_out[:size])

    def held_out(config: Config, tokenizer: Any) -> Task:
        found = inner(config, tokenizer)
        return replace(found, held_out=found.held_out[:size])

    return given.config, replace(given.parts, task=train, held_out=held_out)


FAULT = Fault(
    name="held-out-leaked",
    broken="The held-out set is the training set: what it measures is memory.",
    place=Place.TASK,
    inject=inject,
    strengths=(Strength("32 items, all of them trained on", 32.0, why="wrong measurement: held-out is memory"),),
    roots=("H004",),
    allowed=("S001", "R009", "T002", "H003", "O002", "E001"),
    fix="Check the two sets for shared items before training: rlvitals audit leakage.",
    hidden=dict.fromkeys(
        ("own", "trl", "verl", "chapter7"), "no log tells which items were trained on; rlvitals audit leakage does"
    ),
)
