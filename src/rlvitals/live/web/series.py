"""The plots' data: the visible steps of each series with no more points than a screen can show, decimated here.

A run of 100,000 steps would otherwise send megabytes with every move of the view.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rlvitals.diagnosis import Diagnosis
from rlvitals.metrics import lookup
from rlvitals.report import words
from rlvitals.report.panels import Panel, panels, smooth
from rlvitals.report.series import HELD_OUT, Series, series_of
from rlvitals.schema import Float64

MARKS_BELOW = 60  # values in view; sparser series also get their points drawn
SPARK_POINTS, SPARK_WIDTH, SPARK_HEIGHT = 120, 150.0, 22.0  # of the list's lines; the latter two in px
MIN_POINTS, POINTS, MAX_POINTS = 50, 800, 4000  # per line
ONSET_MARGIN = 0.15  # share of the run shown on each side by "around the onset"


@dataclass(frozen=True, slots=True)
class Window:
    """The steps in view, both ends included, and how many points a line may have."""

    first: float
    last: float
    points: int = POINTS


class Curves:
    """All that the plots of one revision of one run need, computed once."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        self.diagnosis = diagnosis
        self.first, self.last = diagnosis.position.first_step, diagnosis.position.last_step

    @cached_property
    def panels(self) -> tuple[Panel, ...]:
        return panels(self.diagnosis)

    @cached_property
    def _smoothed(self) -> dict[tuple[str, str], Float64]:
        return {(p.key, s.metric): smooth(s.value) for p in self.panels for s in p.lines}

    def prepare(self) -> None:
        """Compute what the first answer would have to wait for."""
        _ = self._smoothed

    @cached_property
    def onset(self) -> tuple[float, float]:
        """Return the steps of "around the onset": the whole run when nothing began."""
        causes = self.diagnosis.causes
        if not causes:
            return self.first, self.last
        margin = max((self.last - self.first) * ONSET_MARGIN, 5)
        onset = causes[0].onset
        return max(self.first, onset.first - margin), min(self.last, onset.last + margin)

    def data(self, window: Window, keys: Sequence[str] = (), over: Curves | None = None) -> dict[str, Any]:
        """Return the panels named (all when none is) as plain data; `over` is another run to draw above this one."""
        chosen = [p for p in self.panels if not keys or p.key in keys]
        other = {} if over is None else {p.key: p for p in over.panels}
        return {p.key: self._panel(p, window) | _over(p, other.get(p.key), window) for p in chosen}

    def _panel(self, p: Panel, window: Window) -> dict[str, Any]:
        low, high = _bounds(p)
        positive = all(bool((s.value >= 0).all()) for s in p.lines) and any(bool((s.value > 0).any()) for s in p.lines)
        return {
            "low": low,
            "high": high,
            "log": positive,
            "lines": [self._line(p.key, s, window) for s in p.lines],
            "stretches": [
                {"id": s.id, "role": s.role.value, "first": s.first, "last": s.last, "onset_last": s.onset_last}
                for s in p.stretches
            ],
        }

    def _line(self, key: str, s: Series, window: Window) -> dict[str, Any]:
        """Return one series in view; plotly reads its text as HTML, so the name is escaped for it."""
        a, b = _inside(s.step, window)
        at = decimated(s.value[a:b], window.points) + a
        marks = b - a < MARKS_BELOW
        out: dict[str, Any] = {"name": _name(s), "marks": marks, "x": _steps(s.step[at]), "y": _short(s.value[at])}
        if marks:
            out |= {"sx": [], "sy": []}
        else:
            curve = self._smoothed[key, s.metric]
            at = decimated(curve[a:b], window.points // 2) + a
            out |= {"sx": _steps(s.step[at]), "sy": _short(curve[at])}
        if s.stderr is not None and np.isfinite(s.stderr[a:b]).any() and b - a <= window.points:
            out["err"] = _short(np.nan_to_num(s.stderr[a:b], nan=0.0))
        return out


def _over(p: Panel, other: Panel | None, window: Window) -> dict[str, Any]:
    """Return the lines of another run for the same plot, each with the number of the line it stands beside."""
    if other is None:
        return {"over": []}
    number = {s.metric: n for n, s in enumerate(p.lines)}
    out = []
    for s in other.lines:
        if s.metric in number or s.metric.startswith(HELD_OUT):
            a, b = _inside(s.step, window)
            curve = smooth(s.value) if b - a >= MARKS_BELOW else s.value
            at = decimated(curve[a:b], window.points // 2) + a
            line = {"name": _name(s), "beside": number.get(s.metric, 0), "x": _steps(s.step[at])}
            out.append(line | {"y": _short(curve[at])})
    return {"over": out}


def decimated(value: Float64, most: int) -> np.ndarray:
    """Return the places of at most `most` points: first, last, and lowest and highest of every stretch.

    value: float64[N] of finite values. Returns int64[K], increasing.
    """
    n = int(value.size)
    if n <= most:
        return np.arange(n)
    width = math.ceil(n / max((most - 2) // 2, 1))
    whole = n // width * width
    rows = value[:whole].reshape(-1, width)
    start = np.arange(0, whole, width)
    places = [start + rows.argmin(axis=1), start + rows.argmax(axis=1), np.array([0, n - 1])]
    if whole < n:
        places.append(np.array([whole + int(value[whole:].argmin()), whole + int(value[whole:].argmax())]))
    return np.unique(np.concatenate(places))


def _inside(step: Float64, window: Window) -> tuple[int, int]:
    """Return the range of values in view and one beyond each side, so that lines run to the edge."""
    a = int(np.searchsorted(step, window.first, side="left")) - 1
    b = int(np.searchsorted(step, window.last, side="right")) + 1
    return max(a, 0), min(b, int(step.size))


def _bounds(p: Panel) -> tuple[float | None, float | None]:
    """Return the range of possible values of a panel's metrics, None where there is no bound."""
    known = [lookup(s.metric) for s in p.lines]
    low = min((m.low if m is not None else -math.inf for m in known), default=-math.inf)
    high = max((m.high if m is not None else math.inf for m in known), default=math.inf)
    return (low if math.isfinite(low) else None), (high if math.isfinite(high) else None)


def _name(s: Series) -> str:
    return html.escape(words.clean(s.label, 48), quote=False)


def _steps(x: Float64) -> np.ndarray:
    return x.astype(np.int64)


def _short(y: Float64) -> np.ndarray:
    """Return values as float32: seven digits are more than a plot shows, and half the bytes."""
    with np.errstate(over="ignore"):
        return np.clip(y, -3e38, 3e38).astype(np.float32)


def spark(d: Diagnosis) -> dict[str, Any] | None:
    """Return the reward of a run as one small line in SPARK_WIDTH x SPARK_HEIGHT px, with the steps since the cause."""
    if d.run is None or d.position.rows < 2:
        return None
    s = series_of(d.run, "reward_mean") or series_of(d.run, "success_frac")
    if s is None or s.value.size < 2:
        return None
    at = decimated(s.value, SPARK_POINTS)
    first, last = d.position.first_step, max(d.position.last_step, d.position.first_step + 1)
    low, high = float(s.value.min()), float(s.value.max())
    x = SPARK_WIDTH * (s.step[at] - first) / (last - first)
    pad = 1.0  # px, so that the line's own width stays inside
    room = SPARK_HEIGHT - 2 * pad
    value = s.value[at]
    y = pad + room * (1 - (value - low) / (high - low)) if high > low else np.full(at.size, SPARK_HEIGHT / 2)
    mark = (d.causes[0].onset.first, d.position.last_step) if d.causes else None
    where = None if mark is None else [SPARK_WIDTH * (m - first) / (last - first) for m in mark]
    return {
        "metric": s.metric,
        "points": " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True)),
        "x": None if where is None else round(where[0], 1),
        "width": 0 if where is None else round(max(where[1] - where[0], 1.5), 1),
        "first": words.number(float(s.value[0])),
        "last": words.number(float(s.value[-1])),
    }
