"""The judge of mathematics for a worker: math-verify is imported with this module, before any call's time runs."""

from __future__ import annotations

import math_verify  # noqa: F401

from rlvitals.grpo.rewards.verifiers import judge

__all__ = ["judge"]
