"""A quarter of the learning rate: a reward that hardly moves."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="slow-learner",
    hard="A quarter of the learning rate: a reward that hardly moves.",
    settings={"recipe": "grpo", "lr": 7.5e-05},
    watch=("R010",),
    steps=160,
)
