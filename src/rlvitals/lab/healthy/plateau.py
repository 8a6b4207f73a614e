"""Three digits: long without success, then it takes off."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="plateau",
    hard="Three digits: long without success, then it takes off.",
    settings={"recipe": "default", "task": "arithmetic:tiers=3", "prompts": 32},
    watch=("R010", "T001", "R013", "S001"),
    steps=250,
)
