"""Groups without signal are drawn again: the reward is that of the kept ones (chapter 7.6.3)."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="ch7-active-sampling",
    hard="Groups without signal are drawn again: the reward is that of the kept ones (chapter 7.6.3).",
    settings={"recipe": "ch7-active-sampling"},
    watch=("R010",),  # 60 steps are few to see a gain in
    steps=60,
)
