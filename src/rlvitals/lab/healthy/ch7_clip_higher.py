"""A higher upper clip, rollouts used twice; entropy falls all the same (chapter 7.6.3)."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="ch7-clip-higher",
    hard="A higher upper clip, rollouts used twice; entropy falls all the same (chapter 7.6.3).",
    settings={"recipe": "ch7-clip-higher"},
    watch=("R010",),  # 60 steps are few to see a gain in
    steps=60,
)
