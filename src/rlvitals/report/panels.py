"""The panels of a plotted report: which series share one, what they are called, and few enough points to draw."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rlvitals.diagnosis import Diagnosis
from rlvitals.metrics import lookup
from rlvitals.report.series import HELD_OUT, Role, Series, Stretch, series_of, stretches
from rlvitals.schema import Float64, Run

MAX_POINTS = 4000  # per trace: more than a screen has columns, few enough to zoom without delay
MAX_LINES = 7  # per panel: the size of the colour-blind safe palette
SMOOTH_SHARE = 0.03  # of the values, the width of the moving mean
SMOOTH_MIN = 5  # values


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot.

    Attributes:
        key: stable name, also the anchor in the page.
        left_out: series beyond MAX_LINES.
        stretches: what is shaded in it; the root cause in every panel, other findings where their metrics are.
    """

    key: str
    title: str
    unit: str
    lines: tuple[Series, ...]
    reading: str  # how a healthy run looks
    stretches: tuple[Stretch, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class _Layout:
    key: str
    title: str
    metrics: tuple[str, ...]  # an entry that ends in "/" is an open family


LAYOUT: tuple[_Layout, ...] = (
    _Layout("reward", "Reward and components", ("reward_mean", "reward_part/")),
    _Layout("held-out", "Held-out accuracy", ()),
    _Layout("held-out-reward", "Held-out reward", ()),
    _Layout("zero-variance", "Groups without signal", ("zero_variance_frac", "all_wrong_frac", "all_right_frac")),
    _Layout("advantage", "Advantage", ("advantage_mean", "advantage_std")),
    _Layout("length", "Response length", ("length_mean", "length_right_mean", "length_wrong_mean")),
    _Layout("truncation", "Truncated responses", ("truncated_frac",)),
    _Layout("entropy", "Entropy", ("entropy",)),
    _Layout("kl", "KL to the reference", ("kl_ref",)),
    _Layout("kl-other", "Other divergences, not to the reference", ("kl_old_new", "kl_sampler_trainer")),
    _Layout("clip", "Clipped ratios", ("clip_frac", "clip_low_frac", "clip_high_frac")),
    _Layout("grad-norm", "Gradient norm", ("grad_norm",)),
    _Layout("loss", "Loss", ("loss", "policy_loss")),
)


def panels(d: Diagnosis) -> tuple[Panel, ...]:
    """Return the panels that have something to show; metrics that findings speak of get one even if not listed."""
    if d.run is None or d.position.rows < 2:
        return ()
    known = stretches(d)
    drawn: set[str] = set()
    out: list[Panel] = []
    for layout in LAYOUT:
        lines = _lines(d.run, layout)
        drawn |= {s.metric for s in lines}
        if lines:
            out.append(_panel(layout.key, layout.title, lines, known))
    spoken = dict.fromkeys(m for s in known for m in s.metrics)
    for n, metric in enumerate(m for m in spoken if m not in drawn and not m.startswith(HELD_OUT)):
        series = series_of(d.run, metric)
        if series is not None:
            out.append(_panel(f"evidence-{n}", metric, [series], known))
    return tuple(out)


def _lines(run: Run, layout: _Layout) -> list[Series]:
    if layout.key.startswith("held-out"):
        wanted = "reward" if layout.key.endswith("reward") else "accuracy"
        names = [f"{HELD_OUT}/{e.name}" for e in run.evals.values() if (e.metric == "reward") == (wanted == "reward")]
    else:
        names = []
        for metric in layout.metrics:
            names += sorted(run.family(metric)) if metric.endswith("/") else [metric]
    found = [series_of(run, name) for name in names]
    return [s for s in found if s is not None]


def _panel(key: str, title: str, lines: list[Series], known: tuple[Stretch, ...]) -> Panel:
    metric = lookup(lines[0].metric)
    metrics = {s.metric for s in lines}
    root = next((s for s in known if s.role is Role.CAUSE), None)
    shaded = tuple(s for s in known if s is root or _speaks(s, metrics))
    reading = metric.healthy if metric is not None else ""
    left_out = max(len(lines) - MAX_LINES, 0)
    return Panel(key, title, lines[0].unit, tuple(lines[:MAX_LINES]), reading, shaded, left_out)


def _speaks(stretch: Stretch, metrics: set[str]) -> bool:
    if any(m in metrics for m in stretch.metrics):
        return True
    return any(m.startswith(HELD_OUT) for m in stretch.metrics) and any(m.startswith(HELD_OUT) for m in metrics)


def decimate(step: Float64, value: Float64, most: int = MAX_POINTS) -> tuple[Float64, Float64]:
    """Return at most `most` points of a series: first, last, and the lowest and highest value of every stretch."""
    n = int(value.size)
    if n <= most:
        return step, value
    edges = np.linspace(0, n, max((most - 2) // 2, 1) + 1).astype(int)
    keep = {0, n - 1}
    for a, b in pairwise(edges):
        keep |= {a + int(np.argmin(value[a:b])), a + int(np.argmax(value[a:b]))}
    at = np.fromiter(sorted(keep), dtype=int)
    return step[at], value[at]


def smooth(value: Float64) -> Float64:
    """Return the centred moving mean over SMOOTH_SHARE of the values; narrower at both ends."""
    n = int(value.size)
    half = max(round(n * SMOOTH_SHARE), SMOOTH_MIN) // 2
    if n <= SMOOTH_MIN:
        return value
    total = np.concatenate([[0.0], np.cumsum(value)])
    at = np.arange(n)
    reach = np.minimum(half, np.minimum(at, n - 1 - at))
    low, high = at - reach, at + reach + 1
    return np.asarray((total[high] - total[low]) / (high - low))
