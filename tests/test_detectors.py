"""Decisions on the reference series of vectors/detectors.json, through the real checks and the engine's own looks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlvitals.check import Check, Clear, Fired, Outcome
from rlvitals.checks import entropy_collapse, entropy_runaway, kl_runaway, reward_collapse
from rlvitals.engine import Engine, is_look, look_interval, run_engine
from rlvitals.schema import UNKNOWN_TRAINER, Run, RunConfig
from tests.series import series

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


def reward_collapse_of(text: str) -> Outcome:
    values = series(text, seed="reward_mean")
    run = Run("r", np.arange(1, values.size + 1), {"reward_mean": values})
    return run_engine(run, (reward_collapse.CHECK,)).examine().outcomes["R002"]


def test_a_fall_that_may_be_noise_is_not_cleared_by_the_share_it_has_passed() -> None:
    found = reward_collapse_of("(1, 1, 0) x20; (0, 0, 0, 0, 1) x4")
    assert isinstance(found, Clear)
    assert "not sure" in found.because


@pytest.mark.parametrize("rows", range(440, 900, 20))
def test_a_sudden_fall_is_one_whenever_the_log_ends_while_its_rows_are_kept(rows: int) -> None:
    found = reward_collapse_of(f"0.3->0.7 x300 ~0.02; 0.7 x100 ~0.02; 0.05 x{rows - 400} ~0.02")
    assert isinstance(found, Fired)
    assert found.finding.variant == "sudden"
    assert "between steps 400 and 401" in found.finding.summary


@pytest.mark.parametrize("rows", [500, 700, 1200, 2400, 5000])  # later its blocks hold the climb before it as well
@pytest.mark.parametrize(("over", "variant"), [(1, "outage"), (14, "policy"), (60, "policy")])
def test_a_fall_to_a_constant_is_called_the_same_whenever_the_log_ends(rows: int, over: int, variant: str) -> None:
    values = series("0.3->0.7 x100 ~0.02; 0.7 x290 ~0.02", seed="reward_mean")
    values = np.concatenate([values, np.linspace(0.7, 0, over + 1)[1:], np.zeros(rows - 390 - over)])
    found = reward_collapse_of(",".join(f"{v:.6f}" for v in values))
    assert isinstance(found, Fired)
    assert found.finding.variant == variant
    assert found.finding.onset.first <= 390 + over
    assert found.finding.onset.last >= 390
