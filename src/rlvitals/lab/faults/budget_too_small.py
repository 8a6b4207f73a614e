"""A token budget that right answers do not fit into."""

from __future__ import annotations

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.common import setting


def inject(given: Injection) -> tuple[Config, Parts]:
    return setting(given, max_tokens=int(given.value))


FAULT = Fault(
    name="budget-too-small",
    broken="Completions are cut before the answer; the policy learns to answer without thinking.",
    place=Place.TASK,
    inject=inject,
    strengths=(Strength("12 tokens", 12.0), Strength("16 tokens", 16.0)),
    roots=("L001", "L004"),
    signs=("L003",),
    allowed=("R010", "R014", "S001", "H001", "H002", "R004", "E001", "O002", "H003", "R001", "K001", "T001"),
    hidden={"chapter7": "neither truncation nor the budget is logged"},
    fix="Raise the budget above the length of right answers.",
)
