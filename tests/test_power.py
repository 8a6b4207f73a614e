"""The measurement of power: its table covers every check on step logs, its results belong to that table."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from benchmarks.effects import data
from benchmarks.effects.draft import Draft, NoRoom, draft, steer
from benchmarks.effects.table import EFFECTS
from benchmarks.power import Seen, look, summary
from benchmarks.simulate import Spec

from rlvitals.check import Family
from rlvitals.checks import CHECKS
from rlvitals.engine import next_look

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import how_well  # noqa: E402

STEP_LOG_IDS = [c.id for c in CHECKS if c.family is not Family.CONFIG and c.id not in how_well.AUDITED]


@cache
def healthy_draft() -> Draft:
    return draft(Spec(7, "steady learner", "full", 260, 8, 8))


def fresh(salt: int = 0) -> Draft:
    return healthy_draft().copy(salt)


def check(check_id: str):  # type: ignore[no-untyped-def]
    return next(c for c in CHECKS if c.id == check_id)


def test_the_table_covers_every_check_on_step_logs() -> None:
    assert sorted(EFFECTS) == sorted(STEP_LOG_IDS)


def test_the_results_are_those_of_the_table_and_add_up() -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "power.json").read_text(encoding="utf-8"))
    assert {i: [r["effect"] for r in rows] for i, rows in result["checks"].items()} == {
        i: [e.words for e in effects] for i, effects in EFFECTS.items()
    }
    assert sorted(result["judged"]) == sorted(c.id for c in CHECKS)
    for rows in result["checks"].values():
        for r in rows:
            assert 0 <= r["act_or_stop"] <= r["found"] <= r["quiet_at_onset"] <= r["runs"]
            assert r["quiet_at_onset"] >= r["runs"] - r["fired_before"]
            assert (r["median_delay_steps"] is None) == (r["found"] == 0)


@pytest.mark.parametrize("check_id", STEP_LOG_IDS)
def test_every_effect_can_be_put_into_a_run(check_id: str) -> None:
    for k, effect in enumerate(EFFECTS[check_id]):
        d = fresh(k)
        try:
            effect.put(d)
        except NoRoom:
            continue
        assert {c.shape for c in d.columns.values()} == {d.step.shape}
        assert 0 <= d.at < d.rows


def test_a_steered_series_reaches_its_target_and_keeps_its_past() -> None:
    d = fresh()
    before = d.columns["entropy"].copy()
    steer(d, "entropy", 0.02, 30)
    after = d.columns["entropy"]
    assert np.array_equal(after[: d.at], before[: d.at])
    assert float(np.median(after[d.at + 50 :])) == pytest.approx(0.02, rel=0.15)


def test_small_effects_are_exactly_what_they_say() -> None:
    d = fresh()
    data.gap(d, rows=2)
    assert d.step[d.at] - d.step[d.at - 1] == 3
    d = fresh()
    before = d.columns["reward_mean"].copy()
    data.rescaled(d, factor=1.8)
    assert np.array_equal(d.columns["reward_mean"][d.at :], 1.8 * before[d.at :])
    d = fresh()
    data.nonfinite(d, rows=1)
    assert np.flatnonzero(np.isnan(d.columns["grad_norm"])).tolist() == [d.at]


def test_delay_is_counted_from_the_onset_to_the_first_look_that_fires() -> None:
    d = fresh()
    data.rate_zero(d)
    first = next(rows for rows in range(d.at + 10, d.rows) if next_look(rows - 1) == rows)  # ten zeros are needed
    assert look(check("D007"), d) == Seen(early=False, open_then=False, delay=first - 1 - d.at, acted=True)


def test_a_check_that_fires_already_is_no_find() -> None:
    d = fresh()
    data.rate_zero(d)
    d.at += 40  # the onset is said to be later than it is
    assert look(check("D007"), d) == Seen(early=True, open_then=True)
    seen = [Seen(True, True), Seen(True, False, 30, acted=True), Seen(False, False, 10), Seen(False, False)]
    assert summary(seen) == {
        "runs": 4,
        "quiet_at_onset": 3,
        "found": 2,
        "act_or_stop": 1,
        "fired_before": 2,
        "median_delay_steps": 20.0,
    }


def test_a_page_says_plainly_where_power_is_low() -> None:
    row = {"effect": "a small thing", "found": 2, "quiet_at_onset": 10}
    assert how_well._warnings([row])[0] == "Low power: it misses 80% of the runs in which this happens: a small thing."
    assert how_well._warnings([row | {"found": 7}])[0].startswith("It misses 30%")
    assert how_well._warnings([row | {"found": 8}]) == []
