"""A verifier that is wrong at random."""

from __future__ import annotations

from rlvitals.env import Item, Step, VerifierStatus
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength
from rlvitals.lab.faults.common import answering, chance, scored


def inject(given: Injection) -> tuple[Config, Parts]:
    def answer(item: Item, text: str, step: Step, now: int) -> Step:
        if chance("noise", item.id, text, now) >= given.value:
            return step
        wrong = step.status is VerifierStatus.RIGHT
        return scored(step, float(not wrong), status=VerifierStatus.WRONG if wrong else VerifierStatus.RIGHT)

    return answering(given, answer)


FAULT = Fault(
    name="verifier-noisy",
    broken="A share of the verdicts is flipped.",
    place=Place.REWARD,
    inject=inject,
    strengths=(Strength("20% of the verdicts", 0.2, Harm.MILD),),
    roots=("R033", "R020", "R015", "R031"),
    allowed=("R010", "H001"),
    fix="Make the verifier deterministic; ask it the same twice: rlvitals audit probe.",
    invariant=True,
    hidden=dict.fromkeys(
        ("trl", "verl", "chapter7"),
        "a share of random verdicts looks like a harder task; rlvitals audit probe tells",
    ),
)
