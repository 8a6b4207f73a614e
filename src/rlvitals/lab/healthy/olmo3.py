"""No division by the group's spread, clip-higher, weights for the sampler's drift, dead groups drawn again."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="olmo3",
    hard="No division by the group's spread, clip-higher, weights for the sampler's drift, dead groups drawn again.",
    settings={"recipe": "olmo3"},
)
