"""A verifier that looks for the gold answer anywhere in the completion."""

from __future__ import annotations

from rlvitals.env import Item, Step, VerifierStatus
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength
from rlvitals.lab.faults.common import answering, scored


def inject(given: Injection) -> tuple[Config, Parts]:
    def answer(item: Item, text: str, step: Step, now: int) -> Step:
        right = item.gold in text
        return scored(step, float(right), status=VerifierStatus.RIGHT if right else VerifierStatus.WRONG)

    return answering(given, answer)


FAULT = Fault(
    name="verifier-contains",
    broken="An answer counts as right when the gold one occurs anywhere in the completion.",
    place=Place.REWARD,
    inject=inject,
    strengths=(Strength("gold anywhere", 1.0, Harm.NONE),),
    roots=("R020", "R031"),
    signs=("H001", "H002"),
    allowed=("L002", "L001", "H003", "S001", "R009", "T002", "L004", "L006", "R003"),
    invariant=True,
    fix="Read the answer from its place, and probe the verifier: rlvitals audit probe.",
    hidden=dict.fromkeys(
        ("trl", "verl", "chapter7"), "without rollouts a share of wrong answers that is paid does not show"
    ),
    steps=160,
)
