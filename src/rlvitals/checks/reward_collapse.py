"""R002: the reward fell from an established level to near its floor and stays there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rlvitals import onsets, stats
from rlvitals.check import (
    Action,
    Check,
    Clear,
    Confidence,
    Evidence,
    Family,
    Finding,
    Fired,
    LookAlike,
    Needs,
    NoData,
    Onset,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import course
from rlvitals.checks.common import fmt
from rlvitals.checks.scale import reward_scale
from rlvitals.schema import Float64
from rlvitals.store import WINDOW
from rlvitals.view import Trace, View

QUICK = 2  # rows that a sudden fall may take: one of them may hold part of it (definition)
BLOCK = 20  # logged values in the stretches compared: now, and the best earlier one
LEAST = 3  # logged values that show any noise (definition)
NEAR = 0.25  # of the fall: so close to the best level, the fall has not begun (convention)
WHAT = {
    "policy": "and stays there",
    "outage": "{between}, to a constant: an environment or verifier outage",
    "sudden": "{between}: environment, tool or verifier broke there, or an update broke the policy",
}
"""What a fall is called, by variant."""
RISING = {
    "policy": "and rises again since: harder tasks look like this too",
    "sudden": "{between} and rises again since: harder tasks, or environment, tool or verifier broke there, or an "
    "update broke the policy",
}
"""The same where the reward is on its way up again."""


@dataclass(frozen=True, slots=True)
class Best:
    """The best stretch before now.

    Args:
        mean: its mean with the mean's variance; at: place of its last point in the trace; rows: logged ones in it.
        last: its last step. sd: standard deviation of its rows. noise: the same from row to row.
    """

    mean: stats.Moments
    at: int
    rows: int
    last: int
    sd: float
    noise: float


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    steps, values = view.recent("reward_mean")
    steps, values = steps[-BLOCK:], values[-BLOCK:]
    best = best_stretch(view, values, int(steps[0])) if values.size >= LEAST else None
    if best is None:
        return NoData(("reward_mean",), f"{values.size} recent values, none to compare them with; {LEAST} are needed")
    level, top = float(values.mean()), best.mean.mean
    scale, lost = reward_scale(view), top - level
    floor = scale.low if scale.known else min(scale.low, 0.0)  # step means alone do not show how low a reward can be
    above = top - floor
    part = lost / above if above > 0 else 0.0
    limit = limits["lost_share"]
    seen = (
        f"reward_mean is {fmt(level)} against {fmt(top)} in its best {best.rows} logged rows: {max(part, 0):.0%} of "
        f"what it had above its floor is lost; limit {limit.value:.0%}"
    )
    if part < limit.value:
        return Clear(seen)
    unsure = _unsure(best, values, limits["z"], 0.5 * limit.value * above, above)
    if unsure:
        return Clear(f"{seen}, but that is not sure: {unsure}")
    onset, quick = find_onset(view, best, level)
    flat = bool(np.ptp(values) == 0.0)
    steady = best.sd < limits["steady"].value * lost  # else a step is within the noise of the level
    variant = "policy" if not (quick and steady) else "outage" if flat else "sudden"
    rising = not flat and _risen(view, onset.last, limits["rising_z"].value) >= limits["risen"].value * lost
    one_step = variant != "policy" and onset.last - onset.first <= QUICK  # else a policy may have broken in between
    words = (RISING if rising else WHAT)[variant].format(between=f"between steps {onset.first} and {onset.last}")
    return Fired(
        Finding(
            f"The reward fell from {fmt(top)} to {fmt(level)} {words}",
            Action.FIX if variant == "outage" else Action.STOP,
            Confidence.HIGH if flat or (one_step and not rising) else Confidence.MEDIUM,
            onset,
            (
                Evidence(
                    "reward_mean",
                    f"reward_mean fell from {fmt(top)} (best {best.rows} logged rows, up to step {best.last}) to "
                    f"{fmt(level)} over the last {values.size} logged steps: {part:.0%} of what it had "
                    f"above its floor {fmt(floor)} (limit {limit}); since {onset}",
                    part,
                    "of the height above the floor",
                    (best.last, int(steps[-1])),
                    limit,
                    ">=",
                    top,
                ),
            ),
            variant,
        )
    )


def best_stretch(view: View, now: Float64, since: int) -> Best | None:
    """Return the best stretch of about BLOCK logged rows that ends before step `since`, None without any.

    Its noise is that of its rows. Where they are summed in blocks, their variance is in the sums, and how far they are
    correlated is taken from the rows `now`.
    """
    trace = view.trace("reward_mean")
    points = trace.value[trace.last < since]
    if points.size == 0:
        return None
    width = min(max(1, round(BLOCK / stats.median(trace.count))), points.size)
    total = np.cumsum(np.concatenate([[0.0], points]))
    begin = int(np.argmax(total[width:] - total[:-width]))
    at = begin + width - 1
    part, rows = points[begin : at + 1], int(trace.count[begin : at + 1].sum())
    if rows == part.size and rows >= LEAST:
        found, sd, noise = stats.moments(part), float(np.std(part)), stats.noise_sd(part)
    else:
        mean, variance = _of_rows(view, begin, at + 1)
        error2 = variance / max(rows, 1) * stats.inflation(np.arange(now.size, dtype=float), now)
        found, sd = stats.Moments(mean, error2, rows), math.sqrt(variance)
        noise = sd
    return Best(found, at, rows, int(trace.last[at]), sd, noise)


def _of_rows(view: View, begin: int, end: int) -> tuple[float, float]:
    """Return mean and variance of the logged rows behind points begin to end - 1 of a trace of blocks."""
    sums = view.store.block_sums("reward_mean")
    if sums is None or view.rows <= WINDOW:
        return math.nan, math.nan
    count, total, _, square = sums[:, sums[0] > 0][:, begin:end].sum(axis=1)
    mean = float(total / count)
    return mean, float(max(square / count - mean**2, 0.0) * count / max(count - 1, 1))


def _unsure(best: Best, now: Float64, z: Threshold, least: float, above: float) -> str:
    """Return why a fall may be smaller than `least`, or no more than noise from row to row; "" when it is sure."""
    fall = -stats.change_of(best.mean, stats.moments(now), z=z.value).high
    noise = math.hypot(best.noise, stats.noise_sd(now))
    if not fall > least:
        return f"at {z.value:g} {z.unit} it may be as little as {max(fall, 0.0) / above:.0%}"
    lost = best.mean.mean - float(now.mean())
    return "" if lost > 2 * noise else f"it is within twice the noise from row to row, {fmt(noise)}"


def _risen(view: View, since: int, z: float) -> float:
    """Return by how much the reward surely trends upwards over the rows that are kept of those after a step, else 0."""
    steps, values = view.recent("reward_mean")
    after = steps > since
    x = steps[after].astype(float)
    found = stats.trend(x, values[after], z=z)
    return found.slope * float(np.ptp(x)) if found.rising else 0.0


def find_onset(view: View, best: Best, level: float) -> tuple[Onset, bool]:
    """Return the interval in which the fall began, and whether it took QUICK rows or fewer.

    Rows tell, as long as they are kept: the blocks of a long log do not show how fast it fell, but to a constant.
    """
    trace = view.trace("reward_mean")
    steps, values = view.recent("reward_mean")
    rows = Trace(steps.astype(float), steps, steps, values, np.ones(values.size))
    at = int(np.searchsorted(steps, best.last, side="right")) - 1
    crossed = _crossed(rows, at, best.mean.mean, level)
    high = course.smoothed(values)[:crossed] >= best.mean.mean - NEAR * (best.mean.mean - level)
    if bool(high.any()):
        return _fall(rows, at, best.mean.mean, level)
    return _to_constant(view, trace, level, best.sd) or _fall(trace, best.at, best.mean.mean, level)


def _to_constant(view: View, trace: Trace, level: float, sd: float) -> tuple[Onset, bool] | None:
    """Return the same for a fall to the very value that stands since, None where that is not so or noise hides it.

    The step at which that value came is known to the row, so that the sums of the blocks around it tell how much
    was lost before it, in rows: QUICK or fewer, or the fall was a slow one. The block before those is the level lost,
    which is known as well as it stood still from the one before it.
    """
    since, n = view.frozen_since("reward_mean"), float(view.store.block_rows)
    i = int(np.searchsorted(trace.last, since))
    if not 3 <= i < trace.size or bool(np.any(trace.count[i - 3 : i + 1] != n)):
        return None
    every = float(trace.last[i] - trace.first[i]) / (n - 1)
    inside = float(round((since - trace.first[i]) / every))  # rows of its block before it
    drop = float(trace.value[i - 2]) - level
    if not drop > 0:
        return None
    gone = float((2 * trace.value[i - 2] - trace.value[i - 1] - trace.value[i]) * n / drop - (n - inside))
    moved = abs(float(trace.value[i - 2] - trace.value[i - 3]))
    error = math.hypot(sd * math.sqrt(n + inside + (n + inside) ** 2 / n), (n + inside) * moved) / drop
    if gone > QUICK or error > 1:
        return None
    return Onset(since - round(QUICK * every), since), True


def _crossed(trace: Trace, at: int, top: float, level: float) -> int:
    """Return the point after `at` from which the series is below the middle of two levels for good."""
    down = trace.value[at + 1 :] < 0.5 * (top + level)
    down[-1:] = True
    found = onsets.first_lasting(trace.step[at + 1 :], down, share=0.9)
    return at + 1 + found if found is not None else trace.size - 1


def _fall(trace: Trace, at: int, top: float, level: float) -> tuple[Onset, bool]:
    """Return what `find_onset` does, from one trace; points of several rows never tell a quick fall.

    The interval ends where the series crosses half-way down for good, and begins at the last point near the best level,
    or before it at the last median of five there: a good step in the middle of a slow fall is not its beginning.
    """
    crossed, near_best = _crossed(trace, at, top, level), top - NEAR * (top - level)
    near = np.flatnonzero(trace.value[: max(crossed, 1)] >= near_best)
    last_high = int(near[-1]) if near.size else max(at, 0)
    width = max(1, round(BLOCK / stats.median(trace.count)))
    up = np.flatnonzero(trace.value[crossed : crossed + width] >= 0.5 * (top + level))
    settled = crossed + int(up[-1]) if up.size else crossed  # in a noisy series the fall is not over at the first low
    near = np.flatnonzero(course.smoothed(trace.value)[: last_high + 1] >= near_best)
    first = int(near[-1]) if near.size and settled - last_high > QUICK else last_high
    took = trace.step[settled] - trace.step[last_high]
    single = bool(np.all(trace.count[last_high : settled + 1] == 1))
    quick = single and bool(took <= QUICK * stats.median(np.diff(trace.step)))
    return Onset(int(trace.last[first]), int(trace.last[settled])), quick


CHECK = Check(
    id="R002",
    name="reward-collapse",
    family=Family.REWARD,
    fault="The reward has fallen from an established level to near its floor and has not come back.",
    why="A fall from one logged row to the next to a constant is an outage of environment or verifier, one to a low "
    "level a tool that fails, an update that wrecks, or harder tasks; a fall over tens of steps is a policy that "
    "breaks. Unless the tasks are harder, every further step trains on it, so the run should not go on from here.",
    needs=Needs(all_of=("reward_mean",), rows=40),
    thresholds=(
        Threshold(
            "lost_share",
            0.6,
            "of the best level above the floor",
            SourceKind.MEASURED,
            "docs/measurements.md: reward collapse",
        ),
        Threshold("steady", 0.25, "of the fall", SourceKind.CONVENTION, "noise before an outage"),
        Threshold("z", 4.0, "standard errors", SourceKind.MEASURED, "docs/measurements.md: reward collapse"),
        Threshold("risen", 0.1, "of the fall", SourceKind.CONVENTION, "less is no sign that harder tasks are learned"),
        Threshold("rising_z", 2.3, "z", SourceKind.MEASURED, "docs/measurements.md: Trend tests under AR(1) noise"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Stop, and resume from a checkpoint saved before the fall", "", ""),
                Remedy("Read rollouts from before and after the fall", "", "check"),
                Remedy("Lower the learning rate if gradient, entropy or KL moved first", "learning_rate", "lower"),
            ),
            verify=(Verify("the reward does not fall over the next 50 steps", "reward_mean", "not falling", None, 50),),
            rollback=Rollback.BEFORE_ONSET,
        ),
        "sudden": Plan(
            remedies=(
                Remedy("Stop, and check tasks, environment, tools and verifier where it fell", "verifier", "check"),
                Remedy("Read rollouts from the last step before the fall and the first one after it", "", "check"),
                Remedy("Resume from a checkpoint saved before the fall, once what broke there is mended", "", ""),
                Remedy("Lower the learning rate if gradient, entropy or KL moved before it", "learning_rate", "lower"),
            ),
            verify=(Verify("the reward is back near its earlier level", "reward_mean", "as before", None, 20),),
            rollback=Rollback.BEFORE_ONSET,
        ),
        "outage": Plan(
            remedies=(
                Remedy("Check environment and verifier services at the step of the fall", "verifier", "check"),
                Remedy("Treat verifier errors as errors, never as reward", "verifier", "set"),
            ),
            verify=(Verify("the reward is back near its earlier level", "reward_mean", "as before", None, 20),),
            rollback=Rollback.BEFORE_ONSET,
        ),
    },
    leads_to=("R014", "R010", "S001", "H002", "H003"),
    patience=2,
    look_alikes=(
        LookAlike("one or two bad steps", "the last 20 logged steps together are judged"),
        LookAlike("the reward's definition changed with a version", "D005 names a rescaled reward"),
        LookAlike("harder tasks after a curriculum step", "the success rate per tier did not fall"),
    ),
    sources=("docs/measurements.md: Reward collapse", "docs/false-alarms.md: 29"),
)
