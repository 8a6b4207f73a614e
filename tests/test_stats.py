"""Statistics against values worked out by hand or by brute force, and their error rates under autocorrelation."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from rlvitals import onsets, shares, stats, tails


def ar(rng: np.random.Generator, n: int, phi: float) -> np.ndarray:
    out, level = np.empty(n), 0.0
    for i in range(n):
        level = phi * level + rng.normal()
        out[i] = level
    return out


def test_trend_equals_the_vector(shared: Path) -> None:
    vector = json.loads((shared / "vectors" / "detectors.json").read_text())["trend_small"]
    found = stats.trend(np.arange(12.0), np.array(vector["y"]))
    assert found.slope == pytest.approx(vector["theil_sen"], abs=1e-9)
    assert found.z == pytest.approx(vector["z"], abs=1e-9)
    assert found.p == pytest.approx(vector["p_neff"], abs=1e-7)


def test_theil_sen_by_hand() -> None:
    assert stats.theil_sen(np.array([0.0, 1, 2]), np.array([0.0, 1, 4])) == 2.0  # slopes 1, 3, 2
    assert math.isnan(stats.theil_sen(np.array([1.0]), np.array([1.0])))


def test_nan_pairs_are_dropped_not_compared() -> None:
    x, y = np.arange(30.0), np.linspace(0, 1, 30)
    y[::3] = np.nan
    assert stats.trend(x, y).rising
    assert stats.trend(x, np.full(30, np.nan)) == stats.NO_TREND


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8])
def test_trend_interval_keeps_its_level_under_autocorrelation(phi: float) -> None:
    rng = np.random.default_rng(5)
    runs = 300
    wrong = 0
    for _ in range(runs):
        found = stats.trend(np.arange(120.0), ar(rng, 120, phi))
        wrong += found.rising or found.falling
    assert wrong / runs < 0.10  # nominal 0.05, 300 runs: standard error 0.013


def test_trend_finds_a_drift_of_three_sd() -> None:
    rng = np.random.default_rng(6)
    found = sum(stats.trend(np.arange(200.0), ar(rng, 200, 0.3) + np.linspace(0, 3.2, 200)).rising for _ in range(100))
    assert found >= 90


def test_student_tail_at_table_values() -> None:
    assert 2 * tails.t_tail(2.228, 10) == pytest.approx(0.05, abs=2e-4)
    assert 2 * tails.t_tail(12.706, 1) == pytest.approx(0.05, abs=2e-4)
    assert tails.normal_tail(1.959964) == pytest.approx(0.025, abs=1e-6)
    assert tails.beta_inc(2, 3, 0.4) == pytest.approx(0.5248, abs=1e-6)  # 1 - sum_{k<2} C(4,k) .4^k .6^(4-k)


@pytest.mark.parametrize("dof", [1.0, 2.7, 10.0, 200.0])
def test_student_quantile_has_the_tail_of_the_normal_one(dof: float) -> None:
    found = tails.student_quantile(2.2, dof)
    assert tails.t_tail(found, dof) == pytest.approx(tails.normal_tail(2.2), rel=1e-9)
    assert tails.student_quantile(3.3, 1.0) == tails.LARGEST_T


def test_moments_and_fast_sums_are_those_of_numpy() -> None:
    y = np.random.default_rng(1).normal(size=37)
    assert (stats.mean(y), stats.variance(y)) == (y.mean(), y.var(ddof=1))
    assert math.isnan(stats.median(np.array([1.0, np.nan, 3.0])))
    assert stats.change_of(stats.moments(y[:20]), stats.moments(y[20:]), z=2.0) == stats.change(y[:20], y[20:], z=2.0)


def test_wilson_at_known_values() -> None:
    low, high = shares.wilson(0, 64)
    assert (low, high) == (pytest.approx(0.0, abs=1e-12), pytest.approx(0.05662406, abs=2e-5))
    assert shares.wilson(0, 0) == (0.0, 1.0)


def test_blocks_equal_plain_medians() -> None:
    rng = np.random.default_rng(7)
    x, y = np.arange(101.0), rng.normal(size=101)
    bx, by = stats.blocks(x, y, 7)
    edges = np.linspace(0, 101, 8).astype(int)
    for k in range(7):
        assert by[k] == pytest.approx(np.median(y[edges[k] : edges[k + 1]]))
        assert bx[k] == pytest.approx(x[edges[k] : edges[k + 1]].mean())


def test_split_errors_equal_brute_force() -> None:
    rng = np.random.default_rng(8)
    x = np.sort(rng.uniform(0, 1000, 60))
    y = 5e4 + rng.normal(size=60)
    got = onsets._split_errors(x, y)
    for k in range(1, 59):
        level = y[: k + 1].mean()
        dx, dy = x[k:] - x[k], y[k:] - level
        slope = (dx * dy).sum() / (dx * dx).sum()
        want = ((y[: k + 1] - level) ** 2).sum() + ((dy - slope * dx) ** 2).sum()
        assert got[k] == pytest.approx(want, rel=1e-6, abs=1e-6)


def test_onset_interval_covers_a_change_of_slope() -> None:
    rng = np.random.default_rng(9)
    inside = 0
    for _ in range(50):
        y = np.concatenate([np.zeros(60), np.linspace(0, 2, 60)]) + rng.normal(0, 0.1, 120)
        interval = onsets.split_onset(np.arange(120.0), y)
        assert interval is not None
        inside += interval[0] - 5 <= 60 <= interval[1] + 5
    assert inside >= 45


def test_first_lasting() -> None:
    hit = np.array([0, 1, 0, 0, 1, 1, 1, 0, 1, 1], dtype=bool)
    assert onsets.first_lasting(np.arange(10.0), hit) == 4
    assert onsets.first_lasting(np.arange(10.0), np.append(hit, False)) is None


def test_zero_variance_law() -> None:
    assert shares.zero_variance_law(0.1, 4) == pytest.approx(0.6562)
    assert shares.zero_variance_law(0.5, 8) == pytest.approx(2 * 0.5**8)
    assert math.isnan(shares.zero_variance_law(1.2, 8))


def test_noise_ignores_a_slow_trend() -> None:
    rng = np.random.default_rng(10)
    y = np.linspace(0, 50, 2000) + rng.normal(0, 0.3, 2000)
    assert stats.noise_sd(y) == pytest.approx(0.3, rel=0.1)
