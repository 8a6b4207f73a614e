"""REINFORCE with group advantages: no ratio, no clip, no reference."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="ch6-reinforce",
    hard="REINFORCE with group advantages: no ratio, no clip, no reference.",
    settings={"recipe": "ch7-tracking"},
)
