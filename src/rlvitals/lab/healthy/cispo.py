"""Clipped weights instead of a clipped objective."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="cispo",
    hard="Clipped weights instead of a clipped objective.",
    settings={"recipe": "cispo"},
)
