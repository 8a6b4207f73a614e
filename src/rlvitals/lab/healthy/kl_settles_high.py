"""A small penalty: the divergence rises, then stays."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="kl-settles-high",
    hard="A small penalty: the divergence rises, then stays.",
    settings={"recipe": "grpo", "kl_coef": 0.001, "lr": 0.0006},
    steps=200,
)
