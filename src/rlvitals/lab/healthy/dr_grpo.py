"""No division by the group's spread: advantages are small."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="dr-grpo",
    hard="No division by the group's spread: advantages are small.",
    settings={"recipe": "dr-grpo"},
)
