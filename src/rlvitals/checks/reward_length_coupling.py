"""R008: the reward follows the length of the answers."""

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
    Onset,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import course
from rlvitals.checks.common import fmt, onset_of, shift
from rlvitals.checks.rollout_common import ROWS, recent, speaks
from rlvitals.view import View

EQUAL, SLOPE = "rollouts/length_corr_equal", "rollouts/length_slope_equal"
LEAST_STEPS = 60  # steps with both, where only step means are known (convention)
WINDOW = 200  # logged steps over which the step-to-step changes are compared


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    within = _within_groups(view, limits)
    if within is not None:
        return within
    reward, length = view.rows_of("reward_mean")[-WINDOW:], view.rows_of("length_mean")[-WINDOW:]
    keep = np.isfinite(reward) & np.isfinite(length)
    steps, reward, length = view.steps_of()[-WINDOW:][keep], reward[keep], length[keep]
    if reward.size < LEAST_STEPS:
        return Clear(f"{reward.size} steps carry both reward and length; {LEAST_STEPS} are needed to see a coupling")
    x, y = _ranks(np.diff(length)), _ranks(np.diff(reward))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return Clear("reward or length does not change from step to step")
    r = _correlation(x, y)
    # differences of neighbouring steps share a value, which halves the independent ones
    z = math.atanh(max(min(r, 0.999), -0.999)) * math.sqrt(max(x.size / 2 - 3, 1.0))
    limit = limits["correlation"]
    if r < limit.value or z < limits["z"].value or not stats.trend(steps.astype(float), length, z=2.6).rising:
        return Clear(
            f"step-to-step changes of reward and length have rank correlation {r:+.2f} over {x.size} steps (limit "
            f"{limit.value} together with growing length)"
        )
    return Fired(
        Finding(
            "The reward follows length: longer answers score higher, and answers are getting longer",
            Action.WATCH,
            Confidence.LOW,
            onset_of(view, "length_mean", 0.5 * float(length[:20].mean() + length[-20:].mean()), math.inf),
            (
                Evidence(
                    "length_mean",
                    f"step-to-step changes of reward and length have rank correlation {r:+.2f} (z {z:+.1f}) over "
                    f"{x.size} "
                    f"steps while length went from {length[:20].mean():.0f} to {length[-20:].mean():.0f} tokens "
                    f"(limit {limit})",
                    r,
                    "correlation",
                    (int(steps[0]), int(steps[-1])),
                    limit,
                    ">=",
                ),
            ),
        )
    )


def _within_groups(view: View, limits: Mapping[str, Threshold]) -> Outcome | None:
    """Judge from rollouts of one group that are equally right: free of difficulty and of correctness."""
    found = recent(view, EQUAL, 50)
    if found.n < ROWS:
        return None
    slope, limit, sure = recent(view, SLOPE, 50), limits["correlation_equal"], limits["z_equal"]
    z = found.sure()
    seen = (
        f"within groups, among rollouts equally right, reward and length have correlation {found.mean:+.2f} ({z:+.1f} "
        f"standard errors), {slope.mean:+.3g} reward per 1,000 tokens"
    )
    if abs(found.mean) < limit.value or abs(z) < sure.value:
        return Clear(f"{seen}; limit {limit}")
    longer = found.mean > 0
    evidence = speaks(found, seen, limit, ">=", observed=abs(found.mean), before=0.0)
    drifts = stats.trend(view.recent("length_mean")[0].astype(float), view.recent("length_mean")[1], z=2.6)
    along = drifts.rising if longer else drifts.falling
    what = f"equally right answers earn more when they are {'longer' if longer else 'shorter'}"
    summary = f"{what}, and answers are getting {'longer' if longer else 'shorter'}" if along else what
    onset = onset_of(view, EQUAL, *((limit.value, 1.0) if longer else (-1.0, -limit.value)))
    grown = _grown(view, limits) if along and longer else None
    if grown is None:
        return Fired(Finding(summary, Action.WATCH, Confidence.HIGH, onset, (evidence,), "within groups"))
    # what asks for a move is the growth: it began no later than that
    onset = Onset(onset.first, max(onset.last, course.onset(view, "length_mean").last))
    return Fired(Finding(summary, Action.ADJUST, Confidence.HIGH, onset, (evidence, grown), "within groups"))


def _grown(view: View, limits: Mapping[str, Threshold]) -> Evidence | None:
    """Return the evidence that answers have grown by much without getting right more often, None where they haven't."""
    level, limit = course.level(view, "length_mean"), limits["growth"]
    better = view.has("success_frac", 2 * ROWS) and shift(view, "success_frac", z=2.6).low > 0
    if better or not level.ratio > limit.value:
        return None
    text = (
        f"answers went from {fmt(level.start)} to {fmt(level.now)} tokens over steps {level.first}-{level.last}, "
        f"{fmt(level.ratio)} times; limit {limit}"
    )
    return Evidence("length_mean", text, level.ratio, limit.unit, level.steps, limit, ">", level.start)


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    x, y = x - stats.mean(x), y - stats.mean(y)
    return float(x @ y) / math.sqrt(float(x @ x) * float(y @ y))


def _ranks(y: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(y, kind="stable"), kind="stable").astype(float)


CHECK = Check(
    id="R008",
    name="reward-length-coupling",
    family=Family.REWARD,
    fault="The reward moves with the length of the answers, and the length is drifting the rewarded way.",
    why="If longer answers score better at equal quality, the judge is measuring length. Step means cannot show equal "
    "quality; only rollouts within groups can, so this is a lead, not a verdict.",
    needs=Needs(all_of=("reward_mean", "length_mean"), rows=ROWS),
    thresholds=(
        Threshold(
            "correlation",
            0.6,
            "rank correlation",
            SourceKind.CONVENTION,
            "a clear rank correlation; no published value",
        ),
        Threshold("z", 4.0, "standard errors", SourceKind.CONVENTION, "normal tail 3e-5"),
        Threshold("correlation_equal", 0.2, "correlation", SourceKind.MEASURED, "docs/measurements.md: Rollout checks"),
        Threshold("growth", 1.25, "times the start", SourceKind.CONVENTION, "a quarter more tokens for every answer"),
        Threshold("z_equal", 5, "standard errors", SourceKind.MEASURED, "docs/measurements.md: Rollout checks"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Compare reward and length within groups of rollouts, truncated ones left out", "", "check"),
                Remedy("If a judge pays for length, normalise or cap it", "verifier", "set"),
            ),
            verify=(Verify("length stops drifting", "length_mean", "not rising", None, 50),),
        ),
        "within groups": Plan(
            remedies=(
                Remedy("Read three groups, and say what the longer right answers add", "verifier", "check"),
                Remedy("Score rollouts that are equally right the same, whatever their length", "verifier", "set"),
            ),
            verify=(Verify("equally right answers earn the same", EQUAL, "<", 0.2, 50),),
        ),
    },
    leads_to=("L002", "L003"),
    patience=3,
    look_alikes=(
        LookAlike(
            "harder prompts need longer answers and score lower", "only the drift in the rewarded direction counts"
        ),
        LookAlike("reasoning grows longer as it gets better", "answers are right more often meanwhile: watch"),
        LookAlike("a length that creeps up by a few percent", "below 1.25 times the start: watch"),
    ),
    sources=(
        "Why GRPO training fails: sequence length and truncation",
        "docs/evidence.md: Detection statistics and their error rates",
    ),
)
