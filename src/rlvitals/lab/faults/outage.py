"""The environment is down for a while: every episode of those steps fails."""

from __future__ import annotations

from rlvitals.env import Item, Step, StopReason, VerifierStatus
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength
from rlvitals.lab.faults.common import answering, scored


def inject(given: Injection) -> tuple[Config, Parts]:
    def answer(item: Item, text: str, step: Step, now: int) -> Step:
        if not given.start <= now < given.start + given.value:
            return step
        return scored(step, 0.0, status=VerifierStatus.WRONG, raw="", reason=StopReason.ENV)

    return answering(given, answer)


FAULT = Fault(
    name="outage",
    broken="For some steps the environment answers nothing, and that counts as failure.",
    place=Place.ENVIRONMENT,
    inject=inject,
    strengths=(Strength("20 steps", 20.0, Harm.NONE),),
    roots=("O003", "O005"),
    signs=("R002", "R001"),
    allowed=("R021", "S001", "R014", "R010", "U007", "U008", "R016", "K002"),
    start=60,
    fix="An outage is an error: leave its episodes out, and wait.",
)
