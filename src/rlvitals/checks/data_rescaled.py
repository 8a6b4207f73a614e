"""D005: the reward's scale changed from one step to the next, as when its definition does."""

from __future__ import annotations

import math
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
    NoData,
    Onset,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.schema import Float64
from rlvitals.view import View

SIDE = 10  # rows on each side of a candidate step
EXACT = 0.15  # of H: rounding, the sample variance, means over several steps (convention)
EXACT_SHARE = 0.9  # of the rows on either side (convention)
AGREE = 0.25  # largest difference of the two scale factors, as share of the larger, to call it one rescaling


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    scale = next((m for m in ("reward_std", "reward_max") if view.has(m, 2 * SIDE)), None)
    if scale is None:
        return NoData(("reward_std", "reward_max"))
    reward, spread = view.rows_of("reward_mean"), view.rows_of(scale)
    keep = np.isfinite(reward) & np.isfinite(spread)
    steps, reward, spread = view.steps_of()[keep], reward[keep], spread[keep]
    if reward.size < 2 * SIDE:
        return NoData(("reward_mean", scale), f"needs {2 * SIDE} rows with both")
    limit = limits["scale_factor"]
    two = _two_levels(reward, spread) if scale == "reward_std" else None
    at, factor, other, before, after = two or _largest(reward, spread)
    larger = max(factor, 1 / factor) if factor > 0 else math.nan
    if not math.isfinite(larger):
        return Clear("reward and spread never change scale together at one step")
    if larger < limit.value or abs(factor - other) > AGREE * max(factor, other):
        return Clear(
            f"the largest one-step change multiplies the reward by {factor:.3g} and {scale} by {other:.3g}; "
            f"a rescaling multiplies both alike, by {limit} or more"
        )
    since = int(steps[at])
    evidence = (
        Evidence(
            metric="reward_mean",
            text=f"{'the full mark' if two else 'reward_mean'} steps from {before:.4g} to {after:.4g} between steps "
            f"{int(steps[at - 1])} and {since}, a factor of {factor:.3g}; limit {limit}",
            observed=larger,
            unit="x",
            steps=(int(steps[at - 1]), int(steps[-1])),
            threshold=limit,
            comparison=">",
            before=before,
        ),
        Evidence(
            metric=scale,
            text=f"{scale} is multiplied by {other:.3g} at the same step"
            + (": rewards of two values, as mean and spread show" if two else ""),
            observed=max(other, 1 / other),
            unit="x",
            steps=(since, int(steps[-1])),
            threshold=limit,
            comparison=">",
        ),
    )
    summary = (
        f"the reward's scale changes by a factor of {factor:.3g} at step {since}: rewards before and after are not "
        "comparable"
    )
    onset = Onset(int(steps[at - 1]) + 1, since)
    # rewards of two values give their full mark away exactly, in the mean and in the spread of every row
    action, sure = (Action.FIX, Confidence.HIGH) if two else (Action.WATCH, Confidence.MEDIUM)
    return Fired(Finding(summary, action, sure, onset, evidence))


def _largest(reward: Float64, spread: Float64) -> tuple[int, float, float, float, float]:
    """Return (index, reward factor, spread factor, reward before, after) of the sharpest one-step change of scale.

    Only steps at which the two sides do not overlap in either series count, so that a slow rise never does.
    """
    best = (1, math.nan, math.nan, math.nan, math.nan)
    low_side, high_side = _rolling(np.minimum, reward), _rolling(np.maximum, reward)
    apart = (low_side[:-SIDE] > high_side[SIDE:]) | (low_side[SIDE:] > high_side[:-SIDE])
    for at in np.flatnonzero(apart) + SIDE:
        a, b = reward[at - SIDE : at], reward[at : at + SIDE]
        before, after = stats.median(a), stats.median(b)
        low, high = stats.median(spread[at - SIDE : at]), stats.median(spread[at : at + SIDE])
        if before * after <= 0 or low <= 0 or high <= 0 or _slides(a, after - before) or _slides(b, after - before):
            continue
        factor = after / before
        if not math.isfinite(best[1]) or abs(math.log(factor)) > abs(math.log(best[1])):
            best = (int(at), factor, high / low, before, after)
    return best


def _two_levels(reward: Float64, spread: Float64) -> tuple[int, float, float, float, float] | None:
    """Return the same for rewards of 0 and H alone, where H itself jumps and is exact on either side; None elsewhere.

    Such a reward has variance m (H - m) at mean m, so each row shows H without any noise of sampling.
    """
    inside = np.flatnonzero((reward > 0) & (spread > 0))
    if inside.size < 2 * SIDE:
        return None
    top = reward[inside] + spread[inside] ** 2 / reward[inside]
    jumps = np.abs(np.diff(np.log(top)))
    at = int(np.argmax(jumps)) + 1
    left, right = top[:at], top[at:]
    if min(left.size, right.size) < SIDE:
        return None
    before, after = stats.median(left), stats.median(right)
    exact = [float((np.abs(side / stats.median(side) - 1) <= EXACT).mean()) for side in (left, right)]
    if min(exact) < EXACT_SHARE or not abs(math.log(after / before)) > EXACT:
        return None
    return int(inside[at]), after / before, after / before, before, after


def _rolling(pick: np.ufunc, y: Float64) -> Float64:
    """Return the extreme of each SIDE values in a row, by doubling the stretch that is covered."""
    width = 1
    while width < SIDE:
        ahead = min(width, SIDE - width)
        y = pick(y[:-ahead], y[ahead:])
        width += ahead
    return y


def _slides(side: Float64, jump: float) -> bool:
    """True when a side itself moves by a good part of the jump: a ramp, not a step."""
    slope = stats.theil_sen(np.arange(side.size, dtype=float), side)
    return abs(slope) * (side.size - 1) > 0.25 * abs(jump)


CHECK = Check(
    id="D005",
    name="reward-rescaled",
    family=Family.DATA,
    fault="The reward's scale changed from one step to the next, as when its definition or weights do.",
    why="After an upgrade or a changed reward weight the same answers earn other numbers. Read as learning or as a "
    "collapse, such a step misleads every rule that compares the reward with its own past.",
    needs=Needs(all_of=("reward_mean",), any_of=("reward_std", "reward_max"), rows=2 * SIDE),
    thresholds=(Threshold("scale_factor", 1.8, "x", SourceKind.MEASURED, "docs/measurements.md: Reward rescaling"),),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Compare reward version, weights and normalisation before and after that step", "verifier", "check"
                ),
                Remedy("Score the same rollouts with both versions, and judge each stretch on its own", "", "check"),
            ),
            verify=(Verify("20 rollouts get the same score from the old and the new reward", "", "", None, 20),),
        ),
    },
    leads_to=("R002", "R014", "R009", "R003", "H001"),
    look_alikes=(
        LookAlike("Learning takes off within a few dozen steps", "the reward rises over many rows, its scale stays"),
        LookAlike(
            "The environment breaks and every reward falls to its floor", "the spread vanishes, it is not scaled"
        ),
    ),
    patience=2,
    sources=("docs/false-alarms.md: 29", "SkyRL PR#2055", "UniRL PR#19"),
)
