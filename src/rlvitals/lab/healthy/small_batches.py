"""Two prompts a step: every curve is noise."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="small-batches",
    hard="Two prompts a step: every curve is noise.",
    settings={"recipe": "grpo", "prompts": 2, "lr": 1e-4},
    steps=300,
)
