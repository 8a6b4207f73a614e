"""The plots' data: few points, nothing lost that a screen would show."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from rlvitals.conclude import diagnose
from rlvitals.live.web.series import Curves, Window, decimated, spark
from rlvitals.schema import Run
from tests.live.site import long_log, read, write_run


def test_a_short_series_is_kept_whole() -> None:
    assert decimated(np.arange(50.0), 50).tolist() == list(range(50))
    assert decimated(np.zeros(0), 50).tolist() == []


@pytest.mark.parametrize("n", [101, 999, 1000, 100_000])
def test_extremes_and_ends_stay(n: int) -> None:
    value = np.sin(np.arange(n) / 7)
    value[n // 3], value[n // 2] = 9.0, -9.0
    at = decimated(value, 100)
    assert at.size <= 104
    assert {0, n - 1, n // 3, n // 2} <= set(at.tolist())
    assert (np.diff(at) > 0).all()


def run_of(steps: int, **columns: np.ndarray) -> Run:
    return Run("r", np.arange(1, steps + 1), columns)


def test_a_window_holds_one_value_beyond_each_side() -> None:
    curves = Curves(diagnose(run_of(500, reward_mean=np.linspace(0, 1, 500))))
    line = curves.data(Window(100, 120, 800), ["reward"])["reward"]["lines"][0]
    assert line["x"].tolist() == list(range(99, 122))
    assert line["marks"] is True
    assert line["sx"] == []


def test_only_the_panels_asked_for_are_sent() -> None:
    curves = Curves(diagnose(run_of(60, reward_mean=np.linspace(0, 1, 60), entropy=np.linspace(1, 0.5, 60))))
    assert list(curves.data(Window(0, 60), ["entropy"])) == ["entropy"]
    assert {"reward", "entropy"} <= set(curves.data(Window(0, 60)))


def test_smoothing_does_not_depend_on_the_view() -> None:
    rng = np.random.default_rng(1)
    curves = Curves(diagnose(run_of(2000, reward_mean=rng.normal(0.5, 0.1, 2000))))
    whole = curves.data(Window(0, 2000, 4000), ["reward"])["reward"]["lines"][0]
    near = curves.data(Window(900, 1100, 4000), ["reward"])["reward"]["lines"][0]
    known = dict(zip(whole["sx"].tolist(), whole["sy"].tolist(), strict=True))
    assert [known[x] for x in near["sx"].tolist()] == near["sy"].tolist()


def test_a_value_that_was_not_logged_is_left_out() -> None:
    value = np.linspace(0, 1, 100)
    value[10:20] = np.nan
    curves = Curves(diagnose(run_of(100, reward_mean=value)))
    line = curves.data(Window(0, 100), ["reward"])["reward"]["lines"][0]
    assert 9 in line["x"].tolist()
    assert not set(range(11, 21)) & set(line["x"].tolist())
    assert np.isfinite(line["y"]).all()


def test_another_run_is_laid_over_by_step() -> None:
    one = Curves(diagnose(run_of(80, reward_mean=np.full(80, 0.2), entropy=np.linspace(1, 0.9, 80))))
    two = Curves(diagnose(run_of(40, reward_mean=np.full(40, 0.7))))
    data = one.data(Window(0, 80), (), two)
    assert [(o["beside"], o["x"].tolist()[-1], round(float(o["y"][0]), 3)) for o in data["reward"]["over"]] == [
        (0, 40, 0.7)
    ]
    assert data["entropy"]["over"] == []


def test_the_line_of_the_list_marks_the_cause(tmp_path: Path) -> None:
    healthy, sick = (
        diagnose(read(write_run(tmp_path / n, 80, nan_from=f, dump=False))) for n, f in (("a", None), ("b", 40))
    )
    line = spark(healthy)
    assert line is not None
    assert line["x"] is None
    marked = spark(sick)
    assert marked is not None
    assert marked["x"] == pytest.approx(150 * 39 / 79, abs=2)
    assert len(marked["points"].split(" ")) == 80


@pytest.mark.slow
def test_a_move_over_100_000_steps_is_answered_in_under_50_ms(tmp_path: Path) -> None:
    run = read(long_log(tmp_path / "long" / "log.jsonl", 100_000))
    curves = Curves(diagnose(run))
    curves.data(Window(0, 100_000))  # the smoothing is done once
    times = []
    for a in range(0, 50_000, 5_000):
        started = time.perf_counter()
        curves.data(Window(a, a + 50_000))
        times.append(time.perf_counter() - started)
    assert np.median(times) < 0.05
