"""A verifier that compares the last digit alone."""

from __future__ import annotations

from rlvitals.env import Item, Step, VerifierStatus
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.tasks.arithmetic import final_answer
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.common import answering, scored


def inject(given: Injection) -> tuple[Config, Parts]:
    def answer(item: Item, text: str, step: Step, now: int) -> Step:
        right = final_answer(text)[-1:] == item.gold[-1:]
        return scored(step, float(right), status=VerifierStatus.RIGHT if right else VerifierStatus.WRONG)

    return answering(given, answer)


FAULT = Fault(
    name="verifier-last-digit",
    broken="An answer counts as right when its last digit is.",
    place=Place.REWARD,
    inject=inject,
    strengths=(Strength("last digit", 1.0),),
    roots=("R020", "R031"),
    signs=("H001", "H002"),
    allowed=("L003", "H003", "E001", "S001", "R009", "O002", "T002", "L002", "R003"),
    invariant=True,
    fix="Compare the whole answer, and score twenty rollouts by hand: rlvitals audit score.",
    hidden=dict.fromkeys(
        ("trl", "verl", "chapter7"),
        "a reward above the held-out score from the first step on may be easier training tasks",
    ),
)
