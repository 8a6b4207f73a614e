"""Small runs with a fault in them: an untrained model of a few thousand weights, a second or less each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rlvitals.grpo.loop import train
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Injection
from tests.grpo.loops import PARTS, config, one_thread, rows


def given(
    fault: Fault, *, parts: Parts = PARTS, start: int | None = None, strength: int = 0, **changes: Any
) -> Injection:
    """Return what a fault is put into: the small run, with the fault's own strength."""
    one_thread()
    value = fault.strengths[strength].value
    return Injection(config(**changes), parts, value, fault.start if start is None else start)


def logged(fault: Fault, folder: Path, **how: Any) -> list[dict[str, float]]:
    """Train with the fault and return the rows of its steps."""
    made, parts = fault.inject(given(fault, **how))
    train(made, parts, folder=folder)
    return [r for r in rows(folder) if r["step"] > 0]


def healthy(folder: Path, **changes: Any) -> list[dict[str, float]]:
    """Train without any fault and return the rows of its steps."""
    one_thread()
    train(config(**changes), replace(PARTS), folder=folder)
    return [r for r in rows(folder) if r["step"] > 0]
