"""Advantages divided by the spread of the whole batch, dead groups left out."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="magistral",
    hard="Advantages divided by the spread of the whole batch, dead groups left out.",
    settings={"recipe": "magistral"},
)
