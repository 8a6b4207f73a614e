"""Weights for the sampler's drift, cut at a bound (chapter 7.6.3)."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="ch7-truncated-is",
    hard="Weights for the sampler's drift, cut at a bound (chapter 7.6.3).",
    settings={"recipe": "ch7-truncated-is"},
    watch=("R010",),  # 60 steps are few to see a gain in
    steps=60,
)
