"""GRPO with a penalty to the reference."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="grpo",
    hard="GRPO with a penalty to the reference.",
    settings={"recipe": "grpo"},
)
