"""A verifier that is slow at random, and whose timeouts count as wrong answers."""

from __future__ import annotations

from rlvitals.env import Item, Step, VerifierStatus
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.common import answering, chance, scored


def inject(given: Injection) -> tuple[Config, Parts]:
    def answer(item: Item, text: str, step: Step, now: int) -> Step:
        if chance("timeout", item.id, text, now) >= given.value:
            return step
        return scored(step, 0.0, status=VerifierStatus.TIMEOUT, raw="timed out, default credit 0.0")

    return answering(given, answer)


FAULT = Fault(
    name="timeouts-score-zero",
    broken="A share of the verifications does not finish in time and counts as reward 0.",
    place=Place.REWARD,
    inject=inject,
    strengths=(Strength("60% of the answers", 0.6),),
    roots=("R017", "R011"),
    allowed=("R010", "S001", "R014", "H001"),
    fix="A timeout is no wrong answer: leave the rollout out, and count it.",
    invariant=True,
    hidden=dict.fromkeys(("trl", "verl", "chapter7"), "the verifier's status is not logged"),
)
