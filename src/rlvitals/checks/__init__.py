"""The explicit list of checks, in triage order. Adding one: one file, one line here, one file in tests/cases."""

from __future__ import annotations

from rlvitals.check import Check
from rlvitals.checks import (
    data_nonfinite,
)

CHECKS: tuple[Check, ...] = (data_nonfinite.CHECK,)
