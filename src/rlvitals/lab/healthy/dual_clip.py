"""A third bound for negative advantages, no penalty."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="dual-clip",
    hard="A third bound for negative advantages, no penalty.",
    settings={"recipe": "dual-clip"},
)
