"""Forward passes in bfloat16, weights in float32."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy

HEALTHY = Healthy(
    name="bfloat16",
    hard="Forward passes in bfloat16, weights in float32.",
    settings={"recipe": "default", "dtype": "bfloat16"},
    steps=60,
)
