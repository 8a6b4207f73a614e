"""A token mean per micro-batch: short answers weigh as much as long ones."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="bnpo",
    hard="A token mean per micro-batch: short answers weigh as much as long ones.",
    settings={"recipe": "bnpo"},
)
