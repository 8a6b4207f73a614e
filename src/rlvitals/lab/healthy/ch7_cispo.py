"""Clipped weights as chapter 7 has them, rollouts used twice."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="ch7-cispo",
    hard="Clipped weights as chapter 7 has them, rollouts used twice.",
    settings={"recipe": "ch7-cispo"},
    watch=("R010",),  # 60 steps are few to see a gain in
    steps=60,
)
