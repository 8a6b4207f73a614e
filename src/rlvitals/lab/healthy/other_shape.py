"""A model a quarter wider."""

from __future__ import annotations

from dataclasses import replace

from rlvitals.grpo.parts import Parts
from rlvitals.grpo.tiny import Recipe
from rlvitals.lab.fault import Healthy
from rlvitals.lab.healthy.pieces import starting_from

# not the shape that the scoreboard keeps for faults on another model (48 by 3): that one stays unseen
HEALTHY = Healthy(
    name="other-shape",
    hard="A model a quarter wider, started from other demonstrations.",
    settings={"recipe": "grpo", "prompts": 8},
    parts=replace(Parts(), model=starting_from(Recipe(hidden=80, ff=160, seed=5))),
)
