"""Groups of four, four of them a step, no division by the spread: many steps have hardly a signal."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="small-groups",
    hard="Groups of four, four of them a step, no division by the spread: many steps have hardly a signal.",
    settings={"recipe": "dr-grpo", "prompts": 4, "group_size": 4, "lr": 1e-4},
    steps=300,
)
