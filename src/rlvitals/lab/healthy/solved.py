"""A task that is solved in the middle: entropy falls because there is nothing left to decide."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="solved",
    hard="A task that is solved in the middle: entropy falls because there is nothing left to decide.",
    settings={"recipe": "grpo", "prompts": 32, "lr": 0.0006},
    watch=("T002", "S001", "R009"),
    steps=250,
)
