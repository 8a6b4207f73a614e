"""Advantages without division by the group's spread, summed over answers (chapter 7.6.3)."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="ch7-no-std",
    hard="Advantages without division by the group's spread, summed over answers (chapter 7.6.3).",
    settings={"recipe": "ch7-no-std"},
    watch=("R010",),  # 60 steps are few to see a gain in
    steps=60,
)
