"""A nucleus of 0.9, scored over the kept tokens alone."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="top-p-accounted",
    hard="A nucleus of 0.9, scored over the kept tokens alone.",
    settings={"recipe": "ch7-keep-mask"},
)
