"""A verifier that gives full marks when it does not finish in time: long completions pay."""

from __future__ import annotations

from rlvitals.env import Item, Step, VerifierStatus
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.common import answering, scored


def inject(given: Injection) -> tuple[Config, Parts]:
    def answer(item: Item, text: str, step: Step, now: int) -> Step:
        if len(text) < given.value:
            return step
        return scored(step, 1.0, status=VerifierStatus.TIMEOUT, raw="timed out, default credit 1.0")

    return answering(given, answer)


FAULT = Fault(
    name="timeout-pays",
    broken="A completion that is too long to be judged in time gets the full reward by default.",
    place=Place.REWARD,
    inject=inject,
    strengths=(Strength("from 27 characters on", 27.0),),
    roots=("R017", "R011"),
    signs=("R020", "H001", "H002"),
    allowed=("L001", "L002", "L004", "L006", "H003", "S001", "R009", "K001", "O003", "E002", "R018", "R003"),
    fix="A verifier that times out gives no reward at all: leave the rollout out, and count it.",
    hidden={"trl": "no held-out score and no verifier status are logged"},
    steps=160,
)
