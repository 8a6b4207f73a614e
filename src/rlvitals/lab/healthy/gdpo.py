"""Two reward components, each made relative to the group before they are added."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="gdpo",
    hard="Two reward components, each made relative to the group before they are added.",
    settings={"recipe": "gdpo", "task": "arithmetic:format=0.2,format_if_right=yes"},
)
