"""Ratios of whole sequences: most of them are clipped."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="gspo",
    hard="Ratios of whole sequences: most of them are clipped.",
    settings={"recipe": "gspo"},
)
