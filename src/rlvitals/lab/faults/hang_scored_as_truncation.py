"""Episodes that hang are recorded as cut off at the token budget."""

from __future__ import annotations

from rlvitals.env import Item, Step, StopReason, VerifierStatus
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength
from rlvitals.lab.faults.common import answering, chance, scored


def inject(given: Injection) -> tuple[Config, Parts]:
    def answer(item: Item, text: str, step: Step, now: int) -> Step:
        if now < given.start or chance("hang", item.id, text, now) >= given.value:
            return step
        return scored(step, 0.0, status=VerifierStatus.NO_PARSE, raw="", reason=StopReason.BUDGET)

    return answering(given, answer)


FAULT = Fault(
    name="hang-scored-as-truncation",
    broken="A share of the episodes hangs, is ended from outside and recorded as truncated.",
    place=Place.ENVIRONMENT,
    inject=inject,
    strengths=(Strength("40% of the episodes", 0.4, Harm.MILD),),
    roots=("O003", "O005", "O032"),
    signs=("L001",),
    allowed=("R014", "R010", "S001", "H001", "L004", "R004", "R002", "H003"),
    start=50,
    fix="Give episodes a time limit of their own, and record its end as such.",
    hidden=dict.fromkeys(("trl", "chapter7"), "termination reasons are not logged"),
)
