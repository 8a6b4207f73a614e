"""Summed k2 as a penalty, rollouts used twice (chapter 7.5)."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="ch7-kl-k2",
    hard="Summed k2 as a penalty, rollouts used twice (chapter 7.5).",
    settings={"recipe": "ch7-kl-k2"},
    watch=("R010",),  # 60 steps are few to see a gain in
    steps=60,
)
