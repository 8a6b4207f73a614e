"""R002: the reward fell from an established level to near its floor and stays there."""

from __future__ import annotations

import math
from collections.abc import Mapping

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
from rlvitals.view import Trace, View

QUICK = 2  # points that a fall in one step may take: a row may hold part of it (definition)
BLOCK = 20  # logged values in the stretches compared: now, and the best earlier one
WHAT = {
    "policy": "and stays there",
    "outage": "in one step, to a constant: an environment or verifier outage",
    "sudden": "within one step: environment, tool or verifier broke there, or one update broke the policy",
}
"""What a fall is called, by variant."""


def best_block(trace: Trace, k: int) -> tuple[float, int, np.ndarray]:
    """Return (mean, index of its last point, values) of the best k consecutive points before the last k."""
    y = trace.value[: trace.size - k]
    width = min(k, y.size)
    sums = np.cumsum(np.concatenate([[0.0], y]))
    means = (sums[width:] - sums[:-width]) / width
    at = int(np.argmax(means))
    return float(means[at]), at + width - 1, y[at : at + width]


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    trace = view.trace("reward_mean")
    k = BLOCK if trace.size >= 3 * BLOCK or view.rows <= 512 else max(trace.size // 6, 3)
    if trace.size < 2 * k:
        k = trace.size // 2
    steps, values = view.recent("reward_mean")
    steps, values = steps[-BLOCK:], values[-BLOCK:]
    best, at, earlier = best_block(trace, k)
    scale, lost = reward_scale(view), best - float(values.mean())
    floor = scale.low if scale.known else min(scale.low, 0.0)  # step means alone do not show how low a reward can be
    above = best - floor
    part = lost / above if above > 0 else 0.0
    limit = limits["lost_share"]
    if part < limit.value or not _surely(earlier, values, limits["z"].value, 0.5 * limit.value * above, lost):
        return Clear(
            f"reward_mean is {fmt(float(values.mean()))} against {fmt(best)} in its best {k} points: "
            f"{max(part, 0):.0%} of "
            f"what it had above its floor is lost; limit {limit.value:.0%}"
        )
    onset, quick = find_onset(trace, at, best, float(values.mean()))
    flat = bool(np.ptp(values) == 0.0)
    steady = float(np.std(earlier)) < limits["steady"].value * lost  # else a step is within the noise of the level
    variant = "policy" if not (quick and steady) else "outage" if flat else "sudden"
    return Fired(
        Finding(
            f"The reward fell from {fmt(best)} to {fmt(float(values.mean()))} {WHAT[variant]}",
            Action.FIX if variant == "outage" else Action.STOP,
            Confidence.HIGH if flat or variant != "policy" else Confidence.MEDIUM,
            onset,
            (
                Evidence(
                    "reward_mean",
                    f"reward_mean fell from {fmt(best)} (best {k} points, up to step {int(trace.last[at])}) to "
                    f"{fmt(float(values.mean()))} over the last {values.size} logged steps: {part:.0%} of what it had "
                    f"above its floor {fmt(floor)} (limit {limit}); since {onset}",
                    part,
                    "of the height above the floor",
                    (int(trace.first[at]), int(steps[-1])),
                    limit,
                    ">=",
                    best,
                ),
            ),
            variant,
        )
    )


def _surely(earlier: np.ndarray, values: np.ndarray, z: float, least: float, lost: float) -> bool:
    """True when the smallest plausible fall is more than `least` and the fall stands out of step-to-step noise."""
    noise = math.hypot(stats.noise_sd(earlier), stats.noise_sd(values))
    return -stats.change(earlier, values, z=z).high > least and lost > 2 * noise


def find_onset(trace: Trace, at: int, best: float, level: float) -> tuple[Onset, bool]:
    """Return the interval in which the fall began, and whether it took two points or fewer.

    It ends where the series crosses half-way down for good, and begins at the last point near the best level, or before
    it at the last median of five there: a good step in the middle of a slow fall is not its beginning.
    """
    down = trace.value[at + 1 :] < 0.5 * (best + level)
    down[-1:] = True
    found = onsets.first_lasting(trace.step[at + 1 :], down, share=0.9)
    crossed = at + 1 + found if found is not None else trace.size - 1
    near = np.flatnonzero(trace.value[: max(crossed, 1)] >= best - 0.25 * (best - level))
    last_high = int(near[-1]) if near.size else at
    up = np.flatnonzero(trace.value[crossed : crossed + BLOCK] >= 0.5 * (best + level))
    settled = crossed + int(up[-1]) if up.size else crossed  # in a noisy series the fall is not over at the first low
    middle = course.smoothed(trace.value)
    near = np.flatnonzero(middle[: last_high + 1] >= best - 0.25 * (best - level))
    first = int(near[-1]) if near.size and settled - last_high > QUICK else last_high
    return Onset(int(trace.last[first]), int(trace.last[settled])), settled - last_high <= QUICK


CHECK = Check(
    id="R002",
    name="reward-collapse",
    family=Family.REWARD,
    fault="The reward has fallen from an established level to near its floor and has not come back.",
    why="A fall within one step to a constant is an outage of environment or verifier, one to a low level a tool that "
    "fails or an update that wrecks; a fall over tens of steps is a policy that breaks. Either way every further step "
    "trains on it, so the run should not go on from here.",
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
                Remedy("Stop, and check environment, tools and verifier at the step of the fall", "verifier", "check"),
                Remedy("Read rollouts from the last step before the fall and the first one after it", "", "check"),
                Remedy("Resume from a checkpoint saved before the fall, once what broke there is mended", "", ""),
                Remedy("Lower the learning rate if gradient, entropy or KL moved before it", "learning_rate", "lower"),
            ),
            verify=(Verify("the reward is back near its earlier level", "reward_mean", "not falling", None, 20),),
            rollback=Rollback.BEFORE_ONSET,
        ),
        "outage": Plan(
            remedies=(
                Remedy("Check environment and verifier services at the step of the fall", "verifier", "check"),
                Remedy("Treat verifier errors as errors, never as reward", "verifier", "set"),
            ),
            verify=(Verify("the reward is back near its earlier level", "reward_mean", "not falling", None, 20),),
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
