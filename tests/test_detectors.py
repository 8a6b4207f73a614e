"""Decisions on the reference series of vectors/detectors.json, through the real checks and the engine's own looks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlvitals.check import Check, Fired
from rlvitals.checks import entropy_collapse, entropy_runaway, kl_runaway
from rlvitals.engine import Engine, is_look, look_interval
from rlvitals.schema import UNKNOWN_TRAINER, RunConfig

# series, metric, check, a lag of looks: the engine looks every 5 rows, the reference on its own geometric grid for KL
ALARMS = (
    ("entropy_settle", "entropy", entropy_collapse.CHECK),
    ("entropy_collapse", "entropy", entropy_collapse.CHECK),
    ("entropy_low_but_healthy", "entropy", entropy_collapse.CHECK),
    ("entropy_explode", "entropy", entropy_collapse.CHECK),
    ("kl_settle_high", "kl_ref", kl_runaway.CHECK),
    ("kl_sqrt_creep", "kl_ref", kl_runaway.CHECK),
    ("kl_ratchet_linear", "kl_ref", kl_runaway.CHECK),
    ("kl_late_blowup", "kl_ref", kl_runaway.CHECK),
)


@pytest.fixture(scope="module")
def vectors(shared: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((shared / "vectors" / "detectors.json").read_text())
    return found


def first_alarm(check: Check, metric: str, values: np.ndarray) -> int:
    """Return the 0-based row at which the check first answers `Fired` at a look, -1 if it never does."""
    engine = Engine((check,), config=RunConfig(), trainer=UNKNOWN_TRAINER)
    for row, value in enumerate(values):
        engine.feed(np.array([row + 1]), (metric,), np.array([[value]]))
        if is_look(row + 1):
            if isinstance(engine.examine().outcomes[check.id], Fired):  # before the look, so that it counts once
                return row
            engine.look()
    return -1


@pytest.mark.parametrize(("name", "metric", "check"), ALARMS, ids=[a[0] for a in ALARMS])
def test_first_alarm(vectors: dict[str, Any], name: str, metric: str, check: Check) -> None:
    values = np.array(vectors[name]["series"])
    expected = vectors[name]["ours_first_alarm"]
    found = first_alarm(check, metric, values)
    if expected < 0:
        assert found == -1
    else:
        assert expected <= found < expected + look_interval(expected)


def test_explosion_is_seen_and_the_others_are_not(vectors: dict[str, Any]) -> None:
    """Entropy above three times the start and one nat: only the exploding series."""
    alarms = {
        name: first_alarm(entropy_runaway.CHECK, "entropy", np.array(vectors[name]["series"]))
        for name in vectors
        if name.startswith("entropy_")
    }
    assert {n for n, row in alarms.items() if row >= 0} == {"entropy_explode"}
    values = np.array(vectors["entropy_explode"]["series"])
    start = np.median(values[:20])
    above = [n for n in range(60, 241, 5) if np.median(values[n - 9 : n]) > max(3 * start, start + 1)]
    assert alarms["entropy_explode"] == above[0] - 1
