"""The divergence settles at three times that of grpo's run and stays there."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy
from rlvitals.lab.healthy.course import divergence_stays_high

HEALTHY = Healthy(
    name="divergence-stays-high",
    hard="Three digits, no penalty: the divergence settles at two to five times that of grpo on two digits and stays.",
    settings={"recipe": "default", "task": "arithmetic:tiers=3", "prompts": 32},
    watch=("R010", "T001", "R013", "S001"),
    steps=250,
    shows=divergence_stays_high,
)
