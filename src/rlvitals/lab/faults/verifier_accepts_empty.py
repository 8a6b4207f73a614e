"""A verifier that looks whether the answer occurs in the gold one: the empty answer does."""

from __future__ import annotations

from rlvitals.env import Item, Step, VerifierStatus
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.tasks.arithmetic import final_answer
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength
from rlvitals.lab.faults.common import answering, scored


def inject(given: Injection) -> tuple[Config, Parts]:
    def answer(item: Item, text: str, step: Step, now: int) -> Step:
        right = final_answer(text) in item.gold
        return scored(step, float(right), status=VerifierStatus.RIGHT if right else VerifierStatus.WRONG)

    return answering(given, answer)


FAULT = Fault(
    name="verifier-accepts-empty",
    broken="The test is `answer in gold`, so the empty answer is right.",
    place=Place.REWARD,
    inject=inject,
    strengths=(Strength("answer in gold", 1.0, Harm.MILD),),
    roots=("R020", "R031"),
    signs=("H001", "H002"),
    allowed=("L003", "H003", "E001", "S001", "R009", "O002", "T002", "O004", "R018", "R003"),
    invariant=True,
    fix="Compare the whole answer, and probe the verifier with an empty one: rlvitals audit probe.",
    hidden=dict.fromkeys(
        ("trl", "verl", "chapter7"), "without rollouts a share of wrong answers that is paid does not show"
    ),
    steps=160,
)
