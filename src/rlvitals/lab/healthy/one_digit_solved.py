"""A task that is solved early and stays so: nothing but ties in the end."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="one-digit-solved",
    hard="A task that is solved early and stays so: nothing but ties in the end.",
    settings={"recipe": "default", "task": "arithmetic:tiers=1"},
    watch=("T002", "S001", "R009"),
    steps=100,
)
