"""Sparklines, decimation and smoothing: what is drawn is what was logged."""

from __future__ import annotations

import numpy as np

from rlvitals.report.panels import MAX_POINTS, decimate, panels, smooth
from rlvitals.report.sparkline import sparkline
from tests.report.examples import sick


def test_sparkline_marks_the_incident() -> None:
    step = np.arange(1.0, 9.0)
    line = sparkline(step, step, width=8, span=(1, 8), incident=(5, 8))
    assert line.cells == "▁▂▃▄▅▆▇█"
    assert str(line) == "▁▂▃▄[▅▆▇█]"


def test_sparkline_of_a_constant_is_flat_and_a_hole_is_empty() -> None:
    step = np.array([1.0, 2.0, 7.0, 8.0])
    assert sparkline(np.arange(8.0), np.full(8, 0.1), width=8, span=(0, 7)).cells == "▄" * 8
    value = np.array([0.0, 0.0, 1.0, 1.0] * 2)
    line = sparkline(np.concatenate([step, step]), value, width=8, span=(1, 8))
    assert line.cells == "▁▁    ██"


def test_sparse_scores_are_carried_forward_between_evaluations() -> None:
    assert sparkline(np.array([3.0, 6.0]), np.array([0.1, 0.9]), width=8, span=(1, 8)).cells == "  ▁▁▁█  "


def test_decimation_keeps_ends_extremes_and_order() -> None:
    rng = np.random.default_rng(0)
    step, value = np.arange(100_000.0), rng.normal(size=100_000)
    value[77_777], value[12_345] = 50.0, -50.0
    x, y = decimate(step, value)
    assert x.size <= MAX_POINTS
    assert (x[0], x[-1]) == (0, 99_999)
    assert (x[y.argmax()], x[y.argmin()]) == (77_777, 12_345)
    assert (np.diff(x) > 0).all()


def test_smoothing_keeps_a_line_a_line() -> None:
    line = np.linspace(0, 1, 200)
    np.testing.assert_allclose(smooth(line), line, atol=1e-12)


def test_the_root_cause_is_shaded_everywhere_and_others_where_they_speak() -> None:
    shaded = {p.key: [s.id for s in p.stretches] for p in panels(sick())}
    assert shaded["reward"] == ["S001"]
    assert shaded["entropy"] == ["S001", "E001"]
    assert [s.metric for p in panels(sick()) if p.key == "kl" for s in p.lines] == ["kl_ref"]
