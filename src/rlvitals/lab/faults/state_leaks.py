"""State survives a reset: an episode is judged by the target of the one before it."""

from __future__ import annotations

from rlvitals.env import Item, Step, VerifierStatus
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.tasks.arithmetic import final_answer
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength
from rlvitals.lab.faults.common import answering, scored


def inject(given: Injection) -> tuple[Config, Parts]:
    last = [""]

    def answer(item: Item, text: str, step: Step, now: int) -> Step:
        gold, last[0] = (last[0] or item.gold), item.gold
        if now < given.start:
            return step
        right = final_answer(text) == gold
        return scored(step, float(right), status=VerifierStatus.RIGHT if right else VerifierStatus.WRONG)

    return answering(given, answer)


FAULT = Fault(
    name="state-leaks",
    broken="The first rollout of a group is judged against the answer of the prompt before it.",
    place=Place.ENVIRONMENT,
    inject=inject,
    strengths=(Strength("one episode back", 1.0, Harm.NONE),),
    roots=("O006",),
    signs=("R020", "R015"),
    allowed=("R010", "S001", "H001", "R014"),
    fix="Reset everything; replay episodes from their seeds: rlvitals audit replay.",
    hidden=dict.fromkeys(("trl", "verl", "chapter7"), "the order of episodes is not logged"),
)
