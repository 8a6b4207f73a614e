"""Answers far from the policy are masked, and sums of the family maths pay no penalty."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="deepseek-v3-2",
    hard="Answers far from the policy are masked, and sums of the family maths pay no penalty.",
    settings={"recipe": "deepseek-v3.2"},
)
