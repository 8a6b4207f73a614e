"""A learning rate that is too high, seen through a lossy log."""

from __future__ import annotations

from rlvitals.lab.faults import learning_rate_too_high
from rlvitals.lab.faults.lossy import on_top_of

FAULT = on_top_of(learning_rate_too_high.FAULT, learning_rate_too_high.FAULT.strengths[0])
