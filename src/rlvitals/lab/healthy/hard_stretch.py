"""Twelve steps with harder prompts: the reward falls, and comes back with the usual prompts."""

from __future__ import annotations

from functools import partial

from rlvitals.lab.fault import Healthy
from rlvitals.lab.healthy.course import recovers
from rlvitals.lab.healthy.pieces import Stretch

FIRST, LAST = 50, 61

HEALTHY = Healthy(
    name="hard-stretch",
    hard="From step 50 to 61 every other sum has three digits, never shown before: the reward falls and comes back.",
    settings={"recipe": "grpo", "prompts": 12},
    parts=Stretch(FIRST, LAST, 3).parts(),
    watch=("R002", "R014", "S001", "D005", "H003", "R010"),
    shows=partial(recovers, first=FIRST, last=LAST),
)
