"""A task that is nearly solved: entropy falls because there is little left to decide."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="nearly-solved",
    hard="A task that is nearly solved: entropy falls because there is little left to decide.",
    settings={"recipe": "grpo", "prompts": 32, "lr": 0.0006},
    watch=("T002", "S001", "R009"),
    steps=250,
)
