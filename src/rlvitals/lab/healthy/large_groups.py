"""Groups of 32: few ties, small changes."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="large-groups",
    hard="Groups of 32: few ties, small changes.",
    settings={"recipe": "grpo", "prompts": 4, "group_size": 32},
)
