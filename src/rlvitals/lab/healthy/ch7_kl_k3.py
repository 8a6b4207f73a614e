"""Summed k3 as a penalty, rollouts used twice (chapter 7.5)."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="ch7-kl-k3",
    hard="Summed k3 as a penalty, rollouts used twice (chapter 7.5).",
    settings={"recipe": "ch7-kl-k3"},
    watch=("R010",),  # 60 steps are few to see a gain in
    steps=60,
)
