"""The parser changes in the middle of a run: the reward falls to 0 at once."""

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
    name="parser-changed-midway",
    broken="From the start step on every answer is wrong to the parser.",
    place=Place.REWARD,
    inject=inject,
    strengths=(Strength("from step 50 on", 1.0),),
    roots=("R021", "R004", "R015"),
    signs=("R002", "R001"),
    allowed=("S001", "R010", "R014", "U007", "U008", "K002", "S005", "R016", "H003", "H002"),
    start=50,
    fix="Take the old parser back, and go on from a checkpoint before the change.",
    invariant=True,
)
