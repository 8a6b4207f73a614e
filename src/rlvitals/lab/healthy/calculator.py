"""Several turns with a tool."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="calculator",
    hard="Several turns with a tool.",
    settings={"recipe": "default", "task": "calculator"},
    steps=160,
)
