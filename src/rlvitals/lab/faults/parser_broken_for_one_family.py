"""The parser fails for one task family: its reward is always 0, the others hide it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlvitals.env import Item, Step, VerifierStatus
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.common import answering, scored, training_on


def inject(given: Injection) -> tuple[Config, Parts]:
    def named(items: Sequence[Item]) -> Sequence[Item]:
        return [replace(item, family=f"sums of {item.tier} digits") for item in items]

    def answer(item: Item, text: str, step: Step, now: int) -> Step:
        return scored(step, 0.0, status=VerifierStatus.WRONG, raw="") if item.tier == "2" else step

    config, parts = training_on(given, named)
    return answering(replace(given, config=config, parts=parts), answer)


FAULT = Fault(
    name="parser-broken-for-one-family",
    broken="Every answer of one family is wrong to the parser.",
    place=Place.REWARD,
    inject=inject,
    strengths=(Strength("one of two families", 1.0),),
    roots=("R006", "R021", "R015", "R004"),
    allowed=("S001", "R009", "R010", "R016", "T007", "H001", "R019", "U002", "H003"),
    settings={"task": "arithmetic:tiers=1+2"},
    fix="Parse that family's answers too; look at the reward of each family apart.",
    invariant=True,
    hidden=dict.fromkeys(("trl", "verl", "chapter7"), "rewards are not logged by family"),
)
