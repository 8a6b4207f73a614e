"""A small penalty and twice the learning rate: the divergence goes up and down."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="small-penalty",
    hard="A small penalty and twice the learning rate: the divergence goes up and down.",
    settings={"recipe": "grpo", "kl_coef": 0.001, "lr": 0.0006},
    steps=200,
)
