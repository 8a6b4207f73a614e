"""Two tiers of different difficulty in one batch."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="mixed-tiers",
    hard="Two tiers of different difficulty in one batch.",
    settings={"recipe": "default", "task": "arithmetic:tiers=1+2"},
    steps=160,
)
