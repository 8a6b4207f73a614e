"""Twice the learning rate: everything moves at once."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="fast-learner",
    hard="Twice the learning rate: everything moves at once.",
    settings={"recipe": "grpo", "lr": 0.0006},
    steps=160,
)
