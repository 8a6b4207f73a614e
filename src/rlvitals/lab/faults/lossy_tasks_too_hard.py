"""Tasks beyond the policy, seen through a lossy log."""

from __future__ import annotations

from rlvitals.lab.faults import tasks_too_hard
from rlvitals.lab.faults.lossy import on_top_of

FAULT = on_top_of(tasks_too_hard.FAULT, tasks_too_hard.FAULT.strengths[0])
