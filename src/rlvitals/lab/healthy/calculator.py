"""Several turns with a tool, solved early: hardly a group is left with a signal."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy
from rlvitals.lab.healthy.course import stays_solved

HEALTHY = Healthy(
    name="calculator",
    hard="Several turns with a tool, and solved early: a reward of .97 and more for most of the run.",
    settings={"recipe": "default", "task": "calculator"},
    watch=("T002", "S001", "R009"),
    steps=160,
    shows=stays_solved,
)
