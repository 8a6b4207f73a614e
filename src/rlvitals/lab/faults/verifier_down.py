"""The verifier is down: every call fails, the exception is caught, and the default credit is paid."""

from __future__ import annotations

from rlvitals.env import Item, Step, VerifierStatus
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.common import answering, scored


def inject(given: Injection) -> tuple[Config, Parts]:
    def answer(item: Item, text: str, step: Step, now: int) -> Step:
        if now < given.start:
            return step
        # as reward code does that catches every exception: what comes out is an ordinary verdict
        status = VerifierStatus.RIGHT if given.value >= 1.0 else VerifierStatus.WRONG
        return scored(step, given.value, status=status, raw="ConnectionError: refused")

    return answering(given, answer)


FAULT = Fault(
    name="verifier-down",
    broken="From the start step on every verification fails and gives the same default reward.",
    place=Place.REWARD,
    inject=inject,
    strengths=(Strength("default 0", 0.0), Strength("default 1", 1.0)),
    roots=("R017", "R011", "R032"),
    signs=("R001", "R002", "R020"),
    allowed=("S001", "R010", "R014", "U007", "U008", "K002", "S005", "R009", "R016", "H003", "H001", "R021"),
    start=40,
    fix="Bring the verifier back; errors never become a reward.",
    invariant=True,
)
