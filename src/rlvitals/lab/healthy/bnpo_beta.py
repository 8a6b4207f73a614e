"""Advantages scaled by a Beta distribution that follows the reward: their spread is not 1."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="bnpo-beta",
    hard="Advantages scaled by a Beta distribution that follows the reward: their spread is not 1.",
    settings={"recipe": "bnpo-beta"},
)
