"""The best of many scores overstates itself, and a slow swing is no noise that a mean takes away."""

from __future__ import annotations

import numpy as np
import pytest

from rlvitals.checks.course import overstated
from rlvitals.checks.held import drop, wander
from rlvitals.view import Held


def test_the_choice_among_few_is_in_the_limits_already() -> None:
    assert [overstated(k) for k in (0, 1, 10)] == [0.0, 0.0, 0.0]


def test_the_choice_among_many_costs_what_the_normal_quantile_says() -> None:
    assert overstated(140) == pytest.approx(1.1174, abs=1e-4)  # quantiles 1 - 1/141 and 1 - 1/11 of the normal
    assert overstated(1000) > overstated(140)


def test_a_swing_is_measured_beside_its_trend() -> None:
    t = np.arange(80)
    assert wander(0.2 + 0.005 * t) == pytest.approx(0.0, abs=1e-12)
    assert wander(np.zeros(15)) == 0.0
    wave = 0.05 * np.sin(2 * np.pi * t / 16)
    assert 0.03 < wander(0.5 + 0.001 * t + wave) < 0.08


def test_a_long_healthy_series_is_no_drop_and_a_lost_one_is() -> None:
    rng = np.random.default_rng(5)
    worst = 0.0
    for _ in range(20):
        level = 0.85 + 0.03 * np.sin(2 * np.pi * (np.arange(200) / 40 + rng.uniform()))
        score = rng.binomial(128, level) / 128
        steps = 5 * np.arange(200)
        found = [drop(Held(steps[:k], score[:k], np.full(k, np.nan), 128)) for k in range(100, 201, 5)]
        worst = max(worst, *(f.z for f in found if f is not None))
    assert worst < 2.6  # the limit from which a drop is watched
    score[-3:] = 0.4
    lost = drop(Held(steps, score, np.full(200, np.nan), 128))
    assert lost is not None
    assert lost.z > 3.5
