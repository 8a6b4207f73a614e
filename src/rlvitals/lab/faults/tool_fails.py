"""The tool of a multi-turn task fails: the policy unlearns to call it."""

from __future__ import annotations

from dataclasses import replace

from rlvitals.env import Item, Message, Step
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.common import answering


def inject(given: Injection) -> tuple[Config, Parts]:
    def answer(item: Item, text: str, step: Step, now: int) -> Step:
        if now < given.start or not step.messages:
            return step
        return replace(step, messages=tuple(Message(m.role, "error") for m in step.messages))

    return answering(given, answer)


FAULT = Fault(
    name="tool-fails",
    broken="From the start step on the calculator answers every call with an error.",
    place=Place.ENVIRONMENT,
    inject=inject,
    strengths=(Strength("every call", 1.0),),
    roots=("O003",),
    signs=("R002", "R014"),
    allowed=("S001", "R010", "L002", "L003", "L001", "H003", "H001", "R004", "O002", "K001", "R001", "O005"),
    start=40,
    settings={"task": "calculator"},
    fix="Bring the tool back; a failed call is an error of the environment.",
)
