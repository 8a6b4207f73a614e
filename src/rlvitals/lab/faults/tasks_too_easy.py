"""Tasks that the policy has mastered: every group is all right, nothing is left to learn."""

from __future__ import annotations

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.common import setting


def inject(given: Injection) -> tuple[Config, Parts]:
    return setting(given, task=f"arithmetic:tiers={given.value:.0f}")


FAULT = Fault(
    name="tasks-too-easy",
    broken="Every prompt is a sum of one digit, which the policy solves from the first step on.",
    place=Place.TASK,
    inject=inject,
    strengths=(Strength("1 digit", 1.0, why="waste: solved from the first step on, so that none teaches anything"),),
    roots=("T002", "T004", "R007"),
    signs=("R009",),
    allowed=("S001", "R010", "U007", "U008", "K002", "H003"),
    fix="Train on a harder tier, or stop: the task is solved.",
    invariant=True,
    hidden=dict.fromkeys(
        ("verl", "chapter7"), "neither spread nor held-out score: solved, or a verifier that accepts everything"
    ),
    steps=160,
)
