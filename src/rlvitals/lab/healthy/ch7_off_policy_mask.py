"""Answers far from the policy are masked, rollouts used twice (chapter 7.6.3)."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="ch7-off-policy-mask",
    hard="Answers far from the policy are masked, rollouts used twice (chapter 7.6.3).",
    settings={"recipe": "ch7-off-policy-mask"},
    watch=("R010",),  # 60 steps are few to see a gain in
    steps=60,
)
