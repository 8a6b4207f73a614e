"""Groups without signal are left out: steps of very different sizes (chapter 7.6.3)."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="ch7-drop-dead-groups",
    hard="Groups without signal are left out: steps of very different sizes (chapter 7.6.3).",
    settings={"recipe": "ch7-drop-dead-groups"},
    watch=("R010",),  # 60 steps are few to see a gain in
    steps=60,
)
