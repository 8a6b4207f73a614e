"""A sampler that is never synced, seen through a lossy log."""

from __future__ import annotations

from rlvitals.lab.faults import sampler_stale
from rlvitals.lab.faults.lossy import on_top_of

FAULT = on_top_of(sampler_stale.FAULT, sampler_stale.FAULT.strengths[1])
