"""A temperature near zero: the rollouts of a group are copies, and nothing is compared."""

from __future__ import annotations

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.common import setting


def inject(given: Injection) -> tuple[Config, Parts]:
    return setting(given, temperature=given.value)


FAULT = Fault(
    name="temperature-near-zero",
    broken="Rollouts are drawn almost greedily, so the rollouts of a group are nearly the same.",
    place=Place.SAMPLER,
    inject=inject,
    strengths=(Strength("temperature 0.05", 0.05),),
    roots=("O002", "S009"),
    signs=("S001",),
    allowed=("E001", "R014", "R010", "R002", "H001", "H002", "H003", "K001", "U002"),
    hidden=dict.fromkeys(
        ("verl", "chapter7"),
        "neither copies nor tied groups are logged: an entropy near 0 from the first step on is all that shows",
    ),
    fix="Sample at a temperature of 1, and score at the same one.",
)
