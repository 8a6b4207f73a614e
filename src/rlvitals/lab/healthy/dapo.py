"""Entropy may rise: clip-higher, dead groups dropped."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="dapo",
    hard="Entropy may rise: clip-higher, dead groups dropped.",
    settings={"recipe": "dapo"},
)
