"""Y003: the disagreement of sampler and trainer grows with every update: the sampler keeps old weights."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlvitals import stats
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
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import companions, course, sampler_gap
from rlvitals.checks.common import fmt
from rlvitals.view import View

FEW = 12  # values below which the order of all pairs is judged without a model of the noise
FEW_Z = 2.3
STILL_GROWING = 1.5  # times, last third over middle third: a ramp, not a step
WATCH_FACTOR = 2.0


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    seen = []
    for metric in sampler_gap.logged(view, 6):
        level = course.level(view, metric)
        ratio, limit = abs(level.ratio), limits[metric]
        seen.append(f"{metric} went from {fmt(level.start)} to {fmt(level.now)}; limits {limit} and {limits['factor']}")
        if not (ratio > sampler_gap.scaled(metric, WATCH_FACTOR) and abs(level.now) > limit.value):
            continue
        if _ramp(view, metric, limits["ramp_z"].value):
            return Fired(_finding(view, metric, level, limits))
    return Clear("; ".join(seen))


def _ramp(view: View, metric: str, z: float) -> bool:
    trace = view.trace(metric, center="median")
    x, y = stats.blocks(trace.step, np.abs(trace.value), course.FORECAST_POINTS)
    third = y.size // 3
    middle, late = stats.median(y[third : y.size - third]), stats.median(y[y.size - third :])
    if late < STILL_GROWING * middle:
        return False
    if y.size < FEW:
        i, j = np.triu_indices(y.size, 1)
        score = float(np.sign(y[j] - y[i]).sum())
        return score / float(np.sqrt(y.size * (y.size - 1) * (2 * y.size + 5) / 18)) > FEW_Z
    return stats.trend(x, y, z=z, points=y.size).rising


def _finding(view: View, metric: str, level: course.Level, limits: Mapping[str, Threshold]) -> Finding:
    limit, factor, ratio = limits[metric], limits["factor"], abs(level.ratio)
    text = (
        f"{metric} grew from {fmt(level.start)} at the start to {fmt(level.now)} over steps "
        f"{level.first}-{level.last}, "
        f"{fmt(ratio)} times, and still grows; limit {factor}"
    )
    first = Evidence(metric, text, ratio, "times", level.steps, factor, ">", level.start)
    high = Evidence(
        metric, f"{metric} is {fmt(level.now)}; limit {limit}", level.now, limit.unit, level.steps, limit, ">"
    )
    onset = course.onset(view, metric)
    lora = " (LoRA: check that the adapter reaches the sampler)" if view.config.uses_lora else ""
    what = (
        f"the gap between sampler and trainer grows with training: {metric} {fmt(level.start)} to {fmt(level.now)}; "
        f"the sampler keeps old weights{lora}"
    )
    others = (*sampler_gap.second_signals(view, limits), *companions.worse(view))
    strong = ratio > sampler_gap.scaled(metric, factor.value) and abs(level.now) > 2 * limit.value
    if sampler_gap.expected_lag(view) or sampler_gap.follows_entropy(view, ratio) or not strong:
        return Finding(what, Action.WATCH, Confidence.LOW, onset, (first, high, *others))
    confidence = Confidence.HIGH if others else Confidence.MEDIUM
    return Finding(what, Action.FIX, confidence, onset, (first, high, *others))


CHECK = Check(
    id="Y003",
    name="logprob-gap-ramp",
    family=Family.SYNC,
    fault="The sampler is left behind: it disagrees with the trainer more and more as training goes on.",
    why="Numerical differences give a level, not a ramp. A gap that grows from the first update on "
    "means that updates do "
    "not reach the sampler, as with an adapter that is never merged or sent. Rewards stay those of the old policy, so "
    "the curves look flat without an obvious cause.",
    needs=Needs(any_of=sampler_gap.GAPS, rows=6),
    thresholds=(
        Threshold(
            "factor", 5, "times the run's own start", SourceKind.MEASURED, "docs/measurements.md: Sampler gap ramp"
        ),
        Threshold(
            "ramp_z", 2.6, "one-sided normal quantile", SourceKind.MEASURED, "docs/measurements.md: Sampler gap ramp"
        ),
        *sampler_gap.LEVELS,
        sampler_gap.CORRELATION,
        sampler_gap.WEIGHTS_ESS,
        companions.REWARD_DROP_Z,
        companions.HELDOUT_DROP_Z,
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Compare a fingerprint of one weight (or adapter) in sampler and trainer after a sync",
                    "sync",
                    "check",
                ),
                Remedy(
                    "With LoRA: run a few steps with merging off, and check the adapter id that the sampler uses",
                    "sync",
                    "",
                ),
                Remedy("Fix the weight transfer; what was trained on stale rollouts is suspect", "sync", "set"),
            ),
            verify=(
                Verify("the gap stops growing over the next 20 steps", "logprob_gap_mean", "not rising", None, 20),
            ),
            rollback=Rollback.NONE,
        )
    },
    leads_to=("Y002", "U005", "U006", "R010", "R014", "K002", "H002"),
    look_alikes=(
        LookAlike("A gap that is high and level", "no growth: numerics, settings or routing, see Y002"),
        LookAlike("The gap grows as entropy grows", "entropy has grown about as much: watch"),
        LookAlike("Asynchronous training: the gap follows the lag", "version lag of 1 or more is logged: watch"),
    ),
    sources=("verl PR#3821", "verl PR#4248", "docs/evidence.md: What no curve shows", "prime-rl PR#1650"),
)
