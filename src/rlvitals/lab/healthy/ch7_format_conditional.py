"""A format reward for right answers alone (chapter 7.6.2)."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="ch7-format-conditional",
    hard="A format reward for right answers alone (chapter 7.6.2).",
    settings={"recipe": "ch7-format-conditional"},
    watch=("R010",),  # 60 steps are few to see a gain in
    steps=60,
)
