"""Episodes that crash are recorded as failures of the policy."""

from __future__ import annotations

from rlvitals.env import Item, Step, VerifierStatus
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength
from rlvitals.lab.faults.common import answering, chance, scored


def inject(given: Injection) -> tuple[Config, Parts]:
    def answer(item: Item, text: str, step: Step, now: int) -> Step:
        if now < given.start or chance("crash", item.id, text, now) >= given.value:
            return step
        return scored(step, 0.0, status=VerifierStatus.WRONG, raw="Traceback (most recent call last): KeyError")

    return answering(given, answer)


FAULT = Fault(
    name="crash-scored-as-failure",
    broken="A share of the episodes crashes, and each counts as a wrong answer.",
    place=Place.ENVIRONMENT,
    inject=inject,
    strengths=(Strength("40% of the episodes", 0.4, Harm.MILD),),
    roots=("O032", "R017"),
    signs=("R011", "O003"),
    allowed=("R014", "R010", "S001", "H001", "H003", "R002"),
    start=50,
    fix="A crash is an error, never a reward of 0: raise it, leave the episode out, count it.",
    hidden=dict.fromkeys(
        ("trl", "verl", "chapter7"), "neither status nor raw output is logged: it looks like a harder task"
    ),
)
