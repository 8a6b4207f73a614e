"""Rollouts are used twice: ratios leave 1, and a share of the tokens is clipped."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="two-epochs",
    hard="Rollouts are used twice: ratios leave 1, and a share of the tokens is clipped.",
    settings={"recipe": "grpo", "epochs": 2},
)
