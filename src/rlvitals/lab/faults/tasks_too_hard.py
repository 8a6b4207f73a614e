"""Tasks beyond the policy: it never succeeds, so no group has a signal."""

from __future__ import annotations

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.common import setting


def inject(given: Injection) -> tuple[Config, Parts]:
    return setting(given, task=f"arithmetic:tiers={given.value:.0f}")


FAULT = Fault(
    name="tasks-too-hard",
    broken="Every prompt is a sum of more digits than the policy can add.",
    place=Place.TASK,
    inject=inject,
    strengths=(Strength("4 digits", 4.0),),
    roots=("T001", "T003"),
    allowed=("S001", "R001", "R010", "R013", "U007", "U008", "K002", "S005", "R004"),
    fix="Start with the tier that the policy solves now and then, or teach it first by supervised training.",
)
