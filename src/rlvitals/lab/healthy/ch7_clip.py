"""Ratios of whole answers, clipped, rollouts used twice (chapter 7.4)."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="ch7-clip",
    hard="Ratios of whole answers, clipped, rollouts used twice (chapter 7.4).",
    settings={"recipe": "ch7-clip"},
    watch=("R010",),  # 60 steps are few to see a gain in
    steps=60,
)
