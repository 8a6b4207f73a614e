"""What the signal and update checks share: tied groups, where the reward stands, how coarsely a log was printed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from rlvitals import onsets, stats
from rlvitals.check import Onset
from rlvitals.checks.common import RECENT
from rlvitals.checks.scale import reward_scale
from rlvitals.schema import Float64, Int64
from rlvitals.store import WINDOW
from rlvitals.view import Trace, View

GROUP_BASELINE = frozenset({"grpo", "dr_grpo", "drgrpo", "rloo", "grpo_passk", "grpo_vectorized", "gdpo", "maxrl"})
"""Advantage estimators that subtract the mean reward of the prompt's own group."""
TIED_STD = 1e-3  # advantage units: below this no group of the step was mixed (GRPO health-check runbook: zero_var_eps)
NEAR_END = 0.1  # share of the reward's range that counts as its end (convention)


def span(steps: Int64 | Float64) -> tuple[int, int]:
    """Return (first, last) of a non-empty run of steps."""
    return int(steps[0]), int(steps[-1])


def centre(values: Float64) -> float:
    """Return the median, NaN when empty."""
    return stats.median(values) if values.size else math.nan


def lasting_onset(trace: Trace, hit: np.ndarray, default: int) -> Onset:
    """Return where a condition that holds now began to hold for at least 80% of all later points, as an interval."""
    at = onsets.first_lasting(trace.step, hit)
    if at is None:
        return Onset(default, default)
    return Onset(int(trace.last[at - 1]) + 1 if at > 0 else int(trace.first[at]), int(trace.last[at]))


def level_onset(trace: Trace, start: int, *, rows: int = 20, share: float = 0.98) -> Onset:
    """Return where a noisy series went from its early level to its present one, as an interval.

    The first point from which its forward mean over `rows` rows stays past the middle of the two levels; the run's
    first step (`start`) when it was there from the first point on.
    """
    if trace.size < 3:
        return Onset(start, int(trace.last[-1]) if trace.size else start)
    width = int(min(max(round(rows / stats.median(trace.count)), 1), trace.size // 2))
    ahead = stats.running_means(trace.value, width)
    early, late = float(ahead[: max(width // 2, 1)].mean()), float(ahead[-1])
    at = onsets.first_lasting(trace.step, ahead >= 0.5 * (early + late), share=share) if late > early + 0.1 else 0
    if at is None:
        return Onset(start, int(trace.last[-1]))
    if at == 0:
        there = np.flatnonzero(trace.value >= 0.5 * late)  # the very first rows may still have been of another kind
        return Onset(start, int(trace.first[there[0]]) if there.size else start)
    # the forward mean crosses the middle about half a width before a step change
    return Onset(int(trace.first[at + width // 4]), int(trace.last[min(at + 3 * width // 4, trace.size - 1)]))


def resolution(view: View, metric: str) -> float:
    """Return the unit (1e-3 or 1e-4) of which every recent value is a multiple, 0 for values finer than that."""

    def find() -> float:
        values = view.recent(metric)[1]
        values = values[(values != 0) & (np.abs(values) < 1e3)]
        for unit in (1e-3, 1e-4):
            if values.size and np.allclose(values / unit, np.round(values / unit), rtol=0, atol=1e-6):
                return unit
        return 0.0

    return view.cached(("resolution", metric), find)


BESIDE = ("entropy", "grad_norm", "reward_mean", "policy_loss", "loss", "kl_ref")


def zero_may_be_rounding(view: View, metric: str, *, unit: float = 1e-3) -> bool:
    """True when a printed 0 of `metric` may stand for a value below half of `unit`.

    Consoles print three decimals. Judged on the metric's own other values; where it never had any, on the series
    printed beside it, of which at least two must be that coarse and none finer.
    """
    own = [m for m in (metric,) if view.has(m) and np.unique(view.recent(m)[1]).size > 2]
    names = own or [m for m in BESIDE if m != metric and view.has(m, 2) and np.any(view.recent(m)[1] % 1 != 0)]
    units = [resolution(view, m) for m in names]
    return bool(units) and (bool(own) or len(units) > 1) and min(units) >= unit


RECOMPUTED = "rollouts/zero_variance_frac"  # from the rewards of the rollouts: the trainer need not be trusted


@dataclass(frozen=True, slots=True)
class Tied:
    """Share of groups whose rewards are all equal, per row.

    Args:
        source: what it was read from, in words; metrics: the same as the metrics' names.
        trace: the share over the whole run; steps, values: its last rows.
        exact: False where a row only tells "all tied" (1) from "not all" (0), so that the mean is a lower bound.
    """

    source: str
    metrics: tuple[str, ...]
    trace: Trace
    steps: Int64
    values: Float64
    exact: bool

    @property
    def size(self) -> int:
        return int(self.values.size)


def tied_of(source: str, values: Float64, *, scaled: bool) -> Float64:
    """Turn values of a signal metric into the share of tied groups they imply; NaN stays NaN.

    Advantages scaled by the group's own std have std sqrt(1 - share) over the step (population std; the sample std
    differs by less than the share of live groups over G).
    """
    if source == "advantage_std" and scaled:
        return np.where(values < TIED_STD, 1.0, np.clip(1 - values**2, 0.0, 1.0))
    if source in ("advantage_std", "reward_std"):
        limit = TIED_STD if source == "advantage_std" else 0.0
        return np.where(np.isfinite(values), (values <= limit).astype(float), np.nan)
    return values


def tied_groups(view: View, k: int = RECENT) -> Tied | None:
    """Return the recent share of tied groups from the best metric that was logged, None when none was.

    In order: the share recomputed from the rewards; zero_variance_frac; all_wrong_frac + all_right_frac;
    advantage_std, inverted where it is known to be scaled by the group's std; reward_std, which is 0 when all groups
    are tied whatever it was taken over; the largest and smallest advantage, both 0 when all groups are tied.
    """
    return view.cached(("tied groups", k), lambda: _tied(view, k))


def recomputed_counts(view: View) -> bool:
    """True when the share recomputed from rollouts stands for the run: as often there as the logged one, unfiltered."""
    if view.config.drops_zero_variance:
        return not view.has("zero_variance_frac")
    return 2 * view.count(RECOMPUTED) >= view.count("zero_variance_frac")


def _tied(view: View, k: int) -> Tied | None:
    scaled = view.config.advantage_scaling == "group"
    counted = next((m for m in (RECOMPUTED, "zero_variance_frac") if view.has(m)), "")
    if counted == RECOMPUTED and not recomputed_counts(view):
        counted = "zero_variance_frac"
    metrics: tuple[str, ...] = ()
    if counted:
        source, rows, trace = counted, view.rows_of(counted), view.trace(counted)
    elif view.has("all_wrong_frac") and view.has("all_right_frac"):
        metrics = ("all_wrong_frac", "all_right_frac")
        source = " + ".join(metrics)
        rows = view.rows_of("all_wrong_frac") + view.rows_of("all_right_frac")
        trace = _sum(view.trace("all_wrong_frac"), view.trace("all_right_frac"))
    elif view.has("advantage_std") or view.has("reward_std"):
        source = "advantage_std" if view.has("advantage_std") else "reward_std"
        rows, trace = tied_of(source, view.rows_of(source), scaled=scaled), _tied_trace(view, source, scaled)
    elif view.has("advantage_max") and view.has("advantage_min"):
        source, metrics, rows = "advantage_max", ("advantage_max", "advantage_min"), _no_advantage(view)
        keep, steps = np.isfinite(rows), view.steps_of()
        trace = Trace(steps[keep].astype(float), steps[keep], steps[keep], rows[keep], np.ones(int(keep.sum())))
    else:
        return None
    keep = np.flatnonzero(np.isfinite(rows))[-k:]
    exact = source not in ("advantage_std", "reward_std", "advantage_max") or (source == "advantage_std" and scaled)
    return Tied(source, metrics or (source,), trace, view.steps_of()[keep], rows[keep], exact)


def _no_advantage(view: View) -> Float64:
    """Return 1 where the largest and the smallest advantage are both 0, so that every group was tied, else 0."""
    low, high = view.rows_of("advantage_min"), view.rows_of("advantage_max")
    widest = np.maximum(np.abs(low), np.abs(high))
    return np.where(np.isfinite(widest), (widest < TIED_STD).astype(float), np.nan)


def _tied_trace(view: View, source: str, scaled: bool) -> Trace:
    """Return the share of tied groups over the run, as far as the source tells it.

    Blocks of a std scaled by group use its mean square, which is additive. A block mean of any other std does not tell
    how many of its rows are 0, so there the trace is the exact window alone.
    """
    sums = view.store.block_sums(source)
    if source == "advantage_std" and scaled and sums is not None and view.rows > WINDOW:
        keep = sums[0] > 0
        square = np.sqrt(sums[3][keep] / sums[0][keep])
        return replace(view.trace(source), value=tied_of(source, square, scaled=True))
    steps, values = view.recent(source)
    shares = tied_of(source, values, scaled=scaled)
    return Trace(steps.astype(float), steps, steps, shares, np.ones(values.size))


def _sum(a: Trace, b: Trace) -> Trace:
    both, at_a, at_b = np.intersect1d(a.step, b.step, return_indices=True)
    return Trace(both, a.first[at_a], a.last[at_a], a.value[at_a] + b.value[at_b], a.count[at_a])


FULL = 0.98  # of a reward between 0 and 1 (convention: GRPO health-check runbook: reward > 0.98)
STEEP = 3  # first rows: more of them are near 1 already where the start is steep (convention)
ROSE = 0.25  # of its range: three rows do not fall so far below by chance (convention)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the reward stands.

    Args:
        level: median of the recent rows; start: median of the first rows.
        where: "top", "floor" or "middle" of the reward's range, or "unknown".
        known: True when that range is configured or logged; False when it is only what this run has shown.
        gained: the recent reward is above the start beyond its noise, or near 1 after it was well below.
        rising: the reward rises now: over the last half of the run, at most the exact window.
        slope_z: the z of that trend, 0 where it has none.
    """

    level: float
    start: float
    where: str
    known: bool
    gained: bool
    rising: bool
    slope_z: float

    @property
    def solved(self) -> bool:
        """True when the reward is at its top: of a known range, or of its own course after it rose."""
        return self.where == "top" and (self.known or self.gained)


def standing(view: View) -> Standing:
    """Return where the reward stands now."""
    return view.cached("standing", lambda: _standing(view))


def _standing(view: View) -> Standing:
    steps, values = view.recent("reward_mean")
    head = view.head("reward_mean")[:20]
    now = values[-RECENT:]
    level, start = centre(now), centre(head)
    gain = stats.change(head, now[-max(now.size // 2, 2) :], z=2.3)
    part = slice(values.size // 2, None) if values.size > 2 * RECENT else slice(None)
    slope = stats.trend(steps[part].astype(float), values[part], z=2.3)
    place, known = _place(view, level)
    where = "unknown"
    if math.isfinite(place):
        where = "top" if place >= 1 - NEAR_END else "floor" if place <= NEAR_END else "middle"
    gained = gain.low > 0 or _full_marks(view, level)
    return Standing(level, start, where, known, gained, slope.rising, slope.z if math.isfinite(slope.z) else 0.0)


def _full_marks(view: View, level: float) -> bool:
    """True for a reward within 0 and 1, near 1 now and well below in the first rows: a steep start hides that gain."""
    low, _, high, _ = view.extremes("reward_mean")
    first = view.head("reward_mean", STEEP)
    return low >= 0.0 and high <= 1.0 and level >= FULL and bool(first.size) and float(first.mean()) <= level - ROSE


def _place(view: View, level: float) -> tuple[float, bool]:
    """Return the place of the reward in its range (0 = floor, 1 = top) and whether the range is known."""
    if view.has("success_frac", 5):
        return centre(view.recent("success_frac")[1][-RECENT:]), True
    if view.has("all_right_frac", 5) and view.has("all_wrong_frac", 5):
        right, wrong = (float(view.recent(m)[1][-RECENT:].mean()) for m in ("all_right_frac", "all_wrong_frac"))
        if right + wrong > 0.5:
            return right / (right + wrong), True
    scale = reward_scale(view)
    if scale.known:
        return scale.place(level), True
    low, _, high, _ = view.extremes("reward_mean")
    return ((level - low) / (high - low) if high > low else math.nan), False
