"""The parser looks for an old format: every answer is wrong to it."""

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
        return scored(step, 0.0, status=VerifierStatus.WRONG, raw="")

    return answering(given, answer)


FAULT = Fault(
    name="parser-changed",
    broken="From the start step on the answer is looked for between tags that the policy never writes.",
    place=Place.REWARD,
    inject=inject,
    strengths=(Strength("from step 1 on", 1.0),),
    roots=("R021", "R004", "R015"),
    signs=("R001", "T001"),
    allowed=("S001", "R010", "R013", "U007", "U008", "K002", "S005", "R016", "H002"),
    fix="Parse what the policy writes now; log raw output and parsed answer side by side.",
    invariant=True,
)
