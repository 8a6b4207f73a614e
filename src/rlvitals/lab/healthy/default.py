"""The trainer's own default: dead groups drawn again, dual clip, correction to the sampler."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="default",
    hard="The trainer's own default: dead groups drawn again, dual clip, correction to the sampler.",
    settings={"recipe": "default"},
)
