"""A format reward beside the answer, each made relative to the group (chapter 7.6.3)."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="ch7-gdpo",
    hard="A format reward beside the answer, each made relative to the group (chapter 7.6.3).",
    settings={"recipe": "ch7-gdpo"},
    watch=("R010",),  # 60 steps are few to see a gain in
    steps=60,
)
