"""How a positive series moves: own start and now, forecast to a floor, growth exponent, jumps and declines.

Shared by the entropy, KL and sampler checks. Nothing here decides: every function returns numbers with the rows or
steps they rest on, and the checks compare them with their limits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from rlvitals import onsets, stats
from rlvitals.check import Onset
from rlvitals.schema import Float64
from rlvitals.view import View

NOW_ROWS = 9  # values behind "now": their median outlasts four spikes
START_ROWS = 20  # values behind the run's own start
WINDOWS = (20, 40, 80, 160)  # rows over which a forecast is tried
FORECAST_POINTS = 24  # block medians per forecast window
SETTLING = 0.5  # a second half slower than this share of the first half is settling, not falling
GROWTH_POINTS = 12  # block medians per growth window
GROWTH_STEP = 1.05  # growth is looked at on a geometric grid of row counts
LEAST_FALL = 0.3  # share of the needed fall that the outer thirds must show; a straight line shows two thirds
TINY = 1e-9  # stands for zero in a logarithm
ONSET_POINTS = 128
# shares of all later points, and of the next nine, that stay beyond a bound; the strictest that is met counts
LASTING_SHARES = (0.8, 0.65, 0.5, 0.35)
BEST_OF = 10  # stretches up to which the limits of a drop allow for the choice of the best (measured: held-out drop)
CERTAIN = 1000.0  # standard errors; stands for a difference without any noise


@dataclass(frozen=True, slots=True)
class Level:
    """Medians of a series at its start and now; `first`, `last` are the steps behind "now"."""

    start: float
    now: float
    rows: int
    first: int
    last: int

    @property
    def ratio(self) -> float:
        return self.now / self.start if self.start > 0 else math.nan

    @property
    def steps(self) -> tuple[int, int]:
        return (self.first, self.last)


def level(view: View, metric: str) -> Level:
    """Return the start (median of the first 20 values) and now (median of the last 9), a third each in short series."""

    def make() -> Level:
        steps, values = view.recent(metric)
        n = view.count(metric)
        if values.size == 0:
            return Level(math.nan, math.nan, 0, -1, -1)
        head = START_ROWS if n >= 2 * START_ROWS else max(1, n // (2 if n >= START_ROWS else 3))
        tail = NOW_ROWS if n >= 3 * NOW_ROWS else max(1, n // 3)
        k = min(tail, values.size)
        return Level(
            stats.median(view.head(metric, head)),
            stats.median(values[-k:]),
            n,
            int(steps[-k]),
            int(steps[-1]),
        )

    return view.cached(("course.level", metric), make)


def row_spacing(view: View, metric: str) -> float:
    """Return the usual number of steps between two logged values."""

    def make() -> float:
        steps, _ = view.recent(metric)
        return stats.median((steps[1:] - steps[:-1]).astype(float)) if steps.size > 1 else 1.0

    return view.cached(("course.row_spacing", metric), make)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Rows until a falling series meets a floor, at the slowest fall the interval allows."""

    rows: float
    window: int
    slope: float  # of the logarithm, per row


def forecast(view: View, metric: str, floor: float, z: float, horizon: float) -> Forecast | None:
    """Return the nearest forecast over the windows in which the logarithm surely falls and does not settle.

    Windows whose thirds fall far too slowly to reach the floor within `horizon` rows are passed over.
    """
    _, values = view.recent(metric, 2 * max(WINDOWS))
    logs = np.log(np.maximum(values, TINY))
    if logs.size < min(WINDOWS) or floor <= 0 or level(view, metric).ratio > 1:
        return None
    height = stats.median(logs[-NOW_ROWS:]) - math.log(floor)
    best: Forecast | None = None
    for window in WINDOWS:
        if logs.size < window:
            break
        x, y = stats.blocks(np.arange(window, dtype=float), logs[-window:], FORECAST_POINTS)
        third = x.size // 3
        fallen = stats.median(y[:third]) - stats.median(y[-third:])
        if fallen <= 0 or fallen < LEAST_FALL * window * height / horizon:
            continue  # too slow whatever the interval says
        found = stats.careful_trend(x, y, z)
        if not found.high < 0 or settling(x, y):
            continue
        rows = max(height / -found.high, 0.0)
        if best is None or rows < best.rows:
            best = Forecast(rows, window, found.slope)
    return best


def settling(x: Float64, y: Float64) -> bool:
    """True when the second half moves less than half as fast as the first did, in the direction of the first."""
    half = x.size // 2
    first, second = stats.theil_sen(x[:half], y[:half]), stats.theil_sen(x[half:], y[half:])
    whole = stats.theil_sen(x, y)
    if not (math.isfinite(first) and math.isfinite(second)) or whole == 0:
        return True
    sign = math.copysign(1.0, whole)
    return sign * second <= SETTLING * max(sign * first, 0.0)


@dataclass(frozen=True, slots=True)
class Growth:
    """Exponent b of a series that grows like t^b over a window, with its lower bound; `rise` is end over begin."""

    exponent: float
    low: float
    rise: float
    now: float
    first: int
    last: int


def growth(view: View, metric: str, z: float, begin: int) -> Iterator[tuple[Growth, ...]]:
    """Yield the growth at the last two points, last first, of a geometric grid of row counts from `begin` on.

    At each of the two points there is one entry for the last half and one for the last third of the run so far;
    nothing is yielded when the grid has not two points yet. Values must be positive.
    """
    trace = view.trace(metric, center="median")
    weight = np.cumsum(trace.count)
    rows = int(weight[-1]) if weight.size else 0
    grid = _grid(begin, rows)
    for n in reversed(grid):
        yield tuple(_growth(view, metric, trace.step, trace.value, weight, n, part, z) for part in (2, 3))


def _grid(begin: int, rows: int) -> tuple[int, ...]:
    if rows < begin * GROWTH_STEP:
        return ()
    k = int(math.log(rows / begin) / math.log(GROWTH_STEP) + 1e-9)
    while int(begin * GROWTH_STEP ** (k + 1)) <= rows:
        k += 1
    return (int(begin * GROWTH_STEP ** (k - 1)), int(begin * GROWTH_STEP**k)) if k >= 1 else ()


def _growth(
    view: View, metric: str, step: Float64, value: Float64, weight: Float64, n: int, part: int, z: float
) -> Growth:
    inside = (weight <= n) & (weight > n - n // part)
    steps, values = step[inside], value[inside]
    if values.size < GROWTH_POINTS // 2:
        return Growth(math.nan, -math.inf, math.nan, math.nan, -1, -1)
    time = np.log(steps + (1.0 if view.first_step == 0 else 0.0))
    x, y = stats.blocks(time, np.log(np.maximum(values, TINY)), GROWTH_POINTS)
    now = math.exp(stats.median(y[-3:]))
    rise = now / math.exp(stats.median(y[:3]))
    if rise <= 1:
        return Growth(stats.theil_sen(x, y), -math.inf, rise, now, int(steps[0]), int(steps[-1]))
    found = stats.trend(x, y, z=z, points=GROWTH_POINTS)
    return Growth(found.slope, found.low, rise, now, int(steps[0]), int(steps[-1]))


@dataclass(frozen=True, slots=True)
class Jump:
    """A rise within a short stretch that still stands: level before it, level now, the steps it happened in."""

    before: float
    now: float
    first: int
    last: int

    @property
    def ratio(self) -> float:
        return self.now / self.before if self.before > 0 else math.inf


def jump(view: View, metric: str, *, base_rows: int, skip_rows: int, factor: float) -> Jump | None:
    """Return the largest rise over `base_rows` rows if now is still `factor` times the level before it, else None.

    The first `skip_rows` rows are left out: everything rises from nothing there.
    """
    trace = view.trace(metric, center="median")
    now = level(view, metric).now
    if trace.size == 0 or not now >= factor * float(trace.value.min()):
        return None
    if trace.count.sum() < skip_rows + base_rows + NOW_ROWS:
        return None
    per_point = stats.median(trace.count)
    width = max(2, round(base_rows / per_point))
    tail = max(1, round(NOW_ROWS / per_point))
    values, begin = trace.value, int(np.searchsorted(np.cumsum(trace.count), skip_rows))
    if values.size - tail < begin + width or not _ever_below(values[begin : values.size - tail], now / factor, width):
        return None
    windows = np.lib.stride_tricks.sliding_window_view
    base = np.median(windows(values[begin : values.size - tail], width), axis=1)
    after = np.median(windows(values[begin + width :], tail), axis=1)
    ratios = np.where(base > 0, after / np.where(base > 0, base, 1.0), 0.0)
    best = int(np.argmax(ratios))
    before, at = float(base[best]), begin + width + best
    if ratios[best] < factor or now < factor * before:
        return None
    over = np.flatnonzero(values[at - width :] > 2 * before)
    first = at - width + (int(over[0]) if over.size else width)
    return Jump(before, now, int(trace.first[max(first - 1, 0)]), int(trace.last[min(at, values.size - 1)]))


def _ever_below(values: Float64, bound: float, width: int) -> bool:
    """False when no median of `width` values in a row can lie at or below a bound: half of them would have to."""
    total = np.concatenate(([0], np.cumsum(values <= bound * (1 + TINY))))
    return bool((2 * (total[width:] - total[:-width]) >= width).any())


def onset(view: View, metric: str, *, log: bool = True) -> Onset:
    """Return the interval in which the present course of a series began."""
    trace = view.trace(metric, center="median")
    if trace.size < 6:
        return Onset(max(view.first_seen(metric), 0), max(view.last_seen(metric), 0))
    y = np.log(np.maximum(trace.value, TINY)) if log else trace.value
    x, y = stats.blocks(trace.step, y, ONSET_POINTS)
    found = onsets.split_onset(x, y)
    if found is None:
        return Onset(int(trace.first[0]), int(trace.last[-1]))
    return Onset(math.floor(found[0]), math.ceil(found[1]))


def entered(view: View, metric: str, start: float, bound: float) -> Onset:
    """Return the interval in which a series went from its start beyond a bound for good.

    It opens at the last value on the start's side of the half-way level (in logarithms) and closes with the first
    value from which most of all later ones (80% if possible) lie beyond the bound. Medians of
    five values stand for single ones.
    """
    trace = view.trace(metric, center="median")
    if trace.size == 0:
        return Onset(max(view.first_step, 0), max(view.step, 0))
    smooth = smoothed(np.maximum(trace.value, TINY)) if trace.size > 2 * NOW_ROWS else np.maximum(trace.value, TINY)
    up = bound > start
    beyond = smooth > bound if up else smooth < bound
    later, ahead = _share_ahead(beyond, beyond.size), _share_ahead(beyond, NOW_ROWS)
    at = beyond.size - 1
    for share in LASTING_SHARES:
        found = np.flatnonzero(beyond & (later >= share) & (ahead >= share))
        if found.size:
            at = int(found[0])
            break
    half = math.sqrt(max(start, TINY) * max(bound, TINY))
    near = np.flatnonzero(smooth[:at] < half if up else smooth[:at] > half)
    first = int(near[-1]) if near.size else 0
    return Onset(int(trace.first[first]), int(trace.last[at]))


def _share_ahead(hit: np.ndarray, width: int) -> Float64:
    """Return for each point the share of hits among it and the next `width` - 1 points (fewer at the end)."""
    total = np.concatenate([[0], np.cumsum(hit)])
    index = np.arange(hit.size)
    end = np.minimum(index + width, hit.size)
    return np.asarray((total[end] - total[index]) / (end - index), dtype=float)


def smoothed(values: Float64) -> Float64:
    """Return the median of each value and its four neighbours, float64[K]: steps keep their place, spikes go."""
    padded = np.pad(values, 2, mode="edge")
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(padded, 5), axis=1))


def overstated(chosen_from: int) -> float:
    """Return by how many standard errors the best of so many overstates itself, beyond the best of BEST_OF."""
    if chosen_from <= BEST_OF:
        return 0.0
    normal = NormalDist()
    return normal.inv_cdf(1 - 1 / (chosen_from + 1)) - normal.inv_cdf(1 - 1 / (BEST_OF + 1))


def chosen_z(fall: float, error: float, chosen_from: int) -> float:
    """Return a fall from the best of so many in standard errors, less what the choice at both its ends overstates.

    The best stretch is chosen, and the worst of as many looks is; each overstates itself by errors of one end, the
    error of the fall over the square root of 2.
    """
    return fall / error - math.sqrt(2) * overstated(chosen_from)


@dataclass(frozen=True, slots=True)
class Decline:
    """Now against the best stretch before it: their means, the drop and its z; z is NaN with too little data."""

    best: float
    best_step: int
    now: float
    z: float
    steps: tuple[int, int]

    @property
    def drop(self) -> float:
        return self.best - self.now


NO_DECLINE = Decline(math.nan, -1, math.nan, math.nan, (-1, -1))


def decline(view: View, metric: str, k: int = START_ROWS) -> Decline:
    """Return how far the last k values (a third of a short series) lie below the best k in a row before them."""
    return view.cached(("course.decline", metric, k), lambda: _decline(view, metric, k))


def _decline(view: View, metric: str, k: int) -> Decline:
    n = view.count(metric)
    steps, values = view.recent(metric)
    k = min(k, n // 3)
    if k < 2 or values.size < k:
        return NO_DECLINE
    late, where = values[-k:], (int(steps[-k]), int(steps[-1]))
    trace = view.trace(metric)
    before = trace.last < where[0]
    points, at = trace.value[before], trace.first[before]
    width = k if view.rows <= trace.size else max(1, round(k / stats.median(trace.count)))
    if points.size < width:
        return NO_DECLINE
    means = np.convolve(points, np.full(width, 1.0 / width), mode="valid")
    top = int(np.argmax(means))
    early = points[top : top + width]
    noise = float(late.var(ddof=1)) / k * stats.inflation(np.arange(k, dtype=float), late)
    if width >= 2:
        noise += float(early.var(ddof=1)) / width * stats.inflation(np.arange(width, dtype=float), early)
    else:
        noise *= 2
    drop = float(means[top] - late.mean())
    error = max(math.sqrt(noise), abs(drop) / CERTAIN)
    z = chosen_z(drop, error, points.size // width) if drop else 0.0
    return Decline(float(means[top]), int(at[top]), float(late.mean()), z, where)
