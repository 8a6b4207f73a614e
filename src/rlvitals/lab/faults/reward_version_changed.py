"""The reward is changed in the middle of a run."""

from __future__ import annotations

from rlvitals.env import Item, Step
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength
from rlvitals.lab.faults.common import answering, scored


def inject(given: Injection) -> tuple[Config, Parts]:
    def answer(item: Item, text: str, step: Step, now: int) -> Step:
        return step if now < given.start else scored(step, given.value * step.rewards["correct"])

    return answering(given, answer)


FAULT = Fault(
    name="reward-version-changed",
    broken="From the start step on a right answer earns another number.",
    place=Place.REWARD,
    inject=inject,
    strengths=(Strength("10 instead of 1", 10.0, Harm.NONE),),
    roots=("D005", "D008"),
    allowed=("H001", "R009", "R003"),
    start=50,
    fix="Start a new run for a new reward, or note the version and judge each stretch on its own.",
    invariant=True,
    hidden=dict.fromkeys(("verl", "chapter7"), "the spread of the reward is not logged: a higher mean may be learning"),
)
