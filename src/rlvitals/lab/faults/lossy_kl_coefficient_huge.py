"""A KL coefficient that is too large, seen through a lossy log."""

from __future__ import annotations

from rlvitals.lab.faults import kl_coefficient_huge
from rlvitals.lab.faults.lossy import on_top_of

FAULT = on_top_of(kl_coefficient_huge.FAULT, kl_coefficient_huge.FAULT.strengths[0])
