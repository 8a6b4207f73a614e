"""A higher upper clip, dead groups drawn again: entropy falls all the same."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="dapo",
    hard="A higher upper clip, dead groups drawn again: entropy falls all the same.",
    settings={"recipe": "dapo"},
)
