"""A small format reward beside a right answer."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="format-beside",
    hard="A small format reward beside a right answer.",
    settings={"recipe": "grpo", "task": "arithmetic:format=0.2,format_if_right=yes"},
)
