"""The prompt sampler is stuck on a few items: the policy learns them by heart."""

from __future__ import annotations

from collections.abc import Sequence

from rlvitals.env import Item
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.common import training_on


def inject(given: Injection) -> tuple[Config, Parts]:
    def few(items: Sequence[Item]) -> Sequence[Item]:
        return items[: int(given.value)]

    return training_on(given, few)


FAULT = Fault(
    name="difficulty-sampler-stuck",
    broken="The same few prompts come again at every step.",
    place=Place.TASK,
    inject=inject,
    strengths=(Strength("16 prompts", 16.0),),
    roots=("T008",),
    signs=("H001", "H002"),
    allowed=("H003", "T002", "R009", "S001", "K001", "O002", "E001"),
    invariant=True,
    fix="Draw prompts from the whole set, and watch how often each comes.",
    hidden={
        "trl": "neither the prompts of a step nor a held-out score are logged",
        "verl": "the prompts of a step are not logged: at most that held-out does not follow",
        "chapter7": "the prompts of a step are not logged: at most that held-out does not follow",
    },
)
