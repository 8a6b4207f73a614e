"""Numbers that several checks read the same way: levels, starts, onsets and how far a series has moved.

Nothing here decides: the functions return values with the steps they rest on, and the checks compare them with limits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from rlvitals import onsets, stats
from rlvitals.check import Onset
from rlvitals.schema import Float64, Int64
from rlvitals.view import View

RECENT = 50  # logged values that stand for "now" (convention: the 20-50 rows a person reads as the present)
FIRST = 10  # first logged values that stand for the start where a fault may be over soon (convention)
START = 20  # first logged values that stand for the start (docs/evidence.md, detection statistics)
POINTS = 72  # points a whole-run comparison works on: 24 block means in each third


@dataclass(frozen=True, slots=True)
class Level:
    """A mean over a stretch of logged values; NaN when there are none."""

    mean: float
    n: int
    first: int  # step of the first value
    last: int  # step of the last value
    low: float = math.nan
    high: float = math.nan

    @property
    def steps(self) -> tuple[int, int]:
        return (self.first, self.last)


def now(view: View, metric: str, k: int = RECENT) -> Level:
    """Return the mean of the last k logged values (fewer where fewer were logged within the exact window)."""

    def make() -> Level:
        steps, values = view.recent(metric)
        steps, values = steps[-k:], values[-k:]
        if values.size == 0:
            return Level(math.nan, 0, -1, -1)
        return Level(
            stats.mean(values),
            int(values.size),
            int(steps[0]),
            int(steps[-1]),
            float(values.min()),
            float(values.max()),
        )

    return view.cached(("now", metric, k), make)


def start(view: View, metric: str, k: int = START) -> float:
    """Return the median of the first k logged values: the run's own start; NaN when nothing was logged."""
    head = view.head(metric, k)
    return stats.median(head)


def share(hit: np.ndarray) -> float:
    """Return the share of true values, NaN for none."""
    return float(hit.mean()) if hit.size else math.nan


def fmt(value: float) -> str:
    """Write a number for a sentence: three significant digits, no trailing zeros."""
    return f"{value:.3g}"


def onset_of(view: View, metric: str, hit_low: float, hit_high: float, *, center: str = "mean") -> Onset:
    """Return the interval in which a series entered [hit_low, hit_high] for good, at the resolution that is kept.

    The first point from which at least 80% of all later stretches (means of up to 20 points) lie inside; the interval
    is that stretch, or its first point when that already lies inside.
    """
    trace = view.trace(metric, center=center)
    if trace.size == 0:
        return Onset(max(view.first_step, 0), max(view.step, 0))
    width = max(1, min(20, trace.size // 8))
    means = stats.running_means(trace.value, width)
    inside = (means >= hit_low) & (means <= hit_high)
    inside[-1] = True
    at = onsets.first_lasting(trace.step, inside)
    at = 0 if at is None else at
    end = min(at + width - 1, trace.size - 1)
    exact = np.flatnonzero((trace.value[at : end + 1] >= hit_low) & (trace.value[at : end + 1] <= hit_high))
    last = at + int(exact[0]) if exact.size else end
    return Onset(int(trace.first[at]), int(trace.last[max(last, at)]))


FALL_SHARE = 0.1  # of the peak level: a smaller loss is not yet the fall (convention)


def fall_onset(view: View, metric: str) -> Onset:
    """Return the interval in which a series left its highest stretch for good: from its smoothed peak on."""
    trace = view.trace(metric)
    width = max(5, trace.size // 20)
    if trace.size < 3 * width:
        return Onset(max(view.first_step, 0), max(view.step, 0))
    smooth = np.convolve(trace.value, np.full(width, 1 / width), mode="valid")  # point i covers i .. i + width - 1
    peak = int(np.argmax(smooth))
    noise = stats.noise_sd(trace.value) / math.sqrt(width)
    least = max(3 * noise, FALL_SHARE * abs(float(smooth[peak])))
    low = smooth[peak:] < smooth[peak] - least
    at = onsets.first_lasting(trace.step[: low.size], low)
    ends = trace.last[peak + (low.size - 1 if at is None else at) + width - 1]
    return Onset(int(trace.first[peak]), int(ends))


@dataclass(frozen=True, slots=True)
class Shift:
    """How a series moved over the whole run: last third against first third, and against its very start.

    Attributes:
        low, high: bounds of the change at the asked z; `high` is the largest upper bound of all the comparisons made,
            so that a fast rise before the end of the first third still counts as a gain.
        z: (late - early) / standard error; NaN without noise or data.
        best_low: the largest lower bound of those comparisons: above 0 when the series has risen at any time.
    """

    early: float
    late: float
    difference: float
    low: float
    high: float
    z: float
    rows: int
    steps: tuple[int, int]
    best_low: float = -math.inf


def coarse(view: View, metric: str) -> tuple[Float64, Float64]:
    """Return the whole run as at most POINTS block means: (mean step, mean value), float64[<=POINTS] each."""

    def make() -> tuple[Float64, Float64]:
        trace = view.trace(metric)
        if trace.size <= POINTS:
            return trace.step, trace.value
        return stats.blocks(trace.step, trace.value, POINTS, center="mean")

    return view.cached(("coarse", metric), make)


def shift(view: View, metric: str, *, z: float = 1.96) -> Shift:
    """Return the change of a metric over the whole run, with bounds inflated for autocorrelated noise."""
    return view.cached(("shift", metric, z), lambda: _shift(view, metric, z))


def _shift(view: View, metric: str, z: float) -> Shift:
    unit = view.cached(("shift", metric), lambda: _unit_shift(view, metric))
    if unit is None:
        trace = view.trace(metric)
        where = (int(trace.first[0]), int(trace.last[-1])) if trace.size else (-1, -1)
        nan = math.nan
        return Shift(nan, nan, nan, -math.inf, math.inf, nan, view.count(metric), where)
    main, error = unit[0], unit[0].high - unit[0].difference
    score = main.difference / error if error > 0 else (math.nan if main.difference == 0 else math.inf)
    bounds = [(c.difference, z * (c.high - c.difference)) for c in unit]
    trace = view.trace(metric)
    return Shift(
        main.early,
        main.late,
        main.difference,
        main.difference - z * error,
        max(d + half for d, half in bounds),
        math.copysign(score, main.difference) if math.isinf(score) else score,
        view.count(metric),
        (int(trace.first[0]), int(trace.last[-1])),
        max(d - half for d, half in bounds),
    )


def _unit_shift(view: View, metric: str) -> tuple[stats.Change, ...] | None:
    """Return the comparisons behind `shift` with bounds one standard error wide; None under 9 points."""
    if view.trace(metric).size < 9:
        return None
    _, y = coarse(view, metric)
    third = y.size // 3
    parts = (y[:third], y[third : y.size - third], y[y.size - third :])
    early, middle, late = (stats.moments(part) for part in parts)
    found = [stats.change_of(early, late, z=1.0), stats.change_of(early, middle, z=1.0)]
    head = view.head(metric, START)
    if head.size >= 10 and view.count(metric) >= 3 * START:
        found.append(stats.change_of(stats.moments(head), late, z=1.0))
    return tuple(found)


def thirds(view: View, metric: str) -> tuple[Float64, Float64]:
    """Return the first and the last third of `coarse`, float64[<=24] each; empty under 9 points."""
    y = coarse(view, metric)[1]
    third = y.size // 3 if view.trace(metric).size >= 9 else 0
    return y[:third], y[y.size - third :]


def gain(view: View, metric: str) -> float:
    """Return `shift(view, metric).difference` without its bounds, which cost far more; NaN under 9 points."""
    early, late = thirds(view, metric)
    return stats.mean(late) - stats.mean(early)


def rose(view: View, metric: str, *, z: float) -> bool:
    """Return `shift(view, metric, z=z).low > 0`; autocorrelation only widens, so white noise is allowed for first."""
    early, late = thirds(view, metric)
    if early.size == 0:
        return False
    error2 = stats.variance(early) / early.size + stats.variance(late) / late.size
    least = z * math.sqrt(error2) * (1 - 1e-9)  # less rounding
    return stats.mean(late) - stats.mean(early) >= least and shift(view, metric, z=z).low > 0


def from_start(view: View, metric: str, *, z: float) -> Shift:
    """Return the change from the first FIRST values to the last third: it sees what is over within the first third.

    Unbounded under 30 values: so few leave no stretch before the change.
    """
    moved, head = shift(view, metric, z=z), view.head(metric, FIRST)
    if view.count(metric) < 3 * FIRST:
        return replace(moved, low=-math.inf, high=math.inf, z=math.nan)
    early, late = stats.moments(head), stats.moments(thirds(view, metric)[1])
    found = stats.change_of(early, late, z=z)
    error = math.sqrt(early.error2 + late.error2)
    score = found.difference / error if error > 0 else math.copysign(math.inf, found.difference)
    score = score if found.difference else math.nan
    return Shift(
        found.early, found.late, found.difference, found.low, found.high, score, moved.rows, moved.steps, found.low
    )


def relative_z(moved: Shift) -> float:
    """Return the z of a change, with a change without any noise counted as certain and no change as 0."""
    if math.isfinite(moved.z):
        return moved.z
    return 0.0 if not moved.difference else math.copysign(math.inf, moved.difference)


def rollouts_per_row(view: View) -> float | None:
    """Return the rollouts behind one logged value, None when group size or prompts per step are unknown."""
    group, prompts = view.config.group_size, view.config.prompts_per_step
    return float(group * prompts) if group and prompts else None


def words_in(name: str, words: tuple[str, ...]) -> bool:
    """True when a metric's own part of the name contains one of the words."""
    tail = name.partition("/")[2].lower() or name.lower()
    return any(word in tail for word in words)


def tied_share(view: View, k: int = RECENT) -> Float64:
    """Return the share of groups without reward differences per row, float64[<=k], from what is logged; may be empty.

    zero_variance_frac where logged, else rows whose reward_std or advantage_std is exactly 0, or whose smallest reward
    is the largest, counted as 1, others as 0.
    """
    return tied_rows(view, k)[1]


def tied_rows(view: View, k: int = RECENT) -> tuple[Int64, Float64]:
    """Return the same with the step of each row, to set other series beside it."""
    if view.has("zero_variance_frac"):
        steps, values = view.recent("zero_variance_frac")
        return steps[-k:], values[-k:]
    for metric in ("reward_std", "advantage_std"):
        if view.has(metric):
            steps, values = view.recent(metric)
            return steps[-k:], np.asarray((values[-k:] == 0.0).astype(float))
    least, most = view.rows_of("reward_min"), view.rows_of("reward_max")
    both = np.flatnonzero(np.isfinite(least) & np.isfinite(most))[-k:]
    return view.steps_of()[both], np.asarray((least[both] == most[both]).astype(float))


@dataclass(frozen=True, slots=True)
class Cut:
    """How many completions end at the token budget, and how that is known."""

    metric: str
    share: float
    n: int
    steps: tuple[int, int]
    budget: float | None  # tokens
    mismatched: bool  # reported as cut although the lengths stay well below the budget: L005


def token_budget(view: View) -> float | None:
    """Return the token budget: the config's, else the largest length where many steps reach exactly that one.

    A fifth of the steps for the longest completion, a tenth for the mean (then every completion of the step is cut).
    """
    if view.config.token_budget is not None:
        return float(view.config.token_budget)
    for metric, least in (("length_max", 0.2), ("length_mean", 0.1)):
        lengths = view.recent(metric)[1]
        if lengths.size >= 5:
            top = float(lengths.max())
            if np.ptp(lengths) > 0 or metric == "length_max":
                return top if share(lengths == top) >= least else None
    return None


def cut(view: View, k: int = 20) -> Cut | None:
    """Return the share of completions cut at the budget over the last k logged values, None when nothing tells.

    Without truncated_frac, a mean length of at least 90% of the budget stands for it.
    """
    budget, length = token_budget(view), now(view, "length_mean", k)
    level = now(view, "truncated_frac", k)
    if level.n:
        shortest, longest = now(view, "length_min", k), now(view, "length_max", k)
        below = budget is not None and length.n > 0 and length.mean < 0.7 * budget
        spread = (
            view.config.token_budget is None
            and shortest.n > 0
            and longest.n > 0
            and longest.low < longest.high
            and shortest.mean < 0.7 * longest.mean
        )
        return Cut("truncated_frac", level.mean, level.n, level.steps, budget, level.mean >= 0.9 and (below or spread))
    if budget is None or not length.n:
        return None
    if length.mean < 0.9 * budget:
        return Cut("length_mean", 0.0, length.n, length.steps, budget, mismatched=False)
    return Cut("length_mean", length.mean / budget, length.n, length.steps, budget, mismatched=False)
