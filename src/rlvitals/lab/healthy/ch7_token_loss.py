"""A mean over tokens instead of a sum per answer (chapter 7.6.3)."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="ch7-token-loss",
    hard="A mean over tokens instead of a sum per answer (chapter 7.6.3).",
    settings={"recipe": "ch7-token-loss"},
    watch=("R010",),  # 60 steps are few to see a gain in
    steps=60,
)
