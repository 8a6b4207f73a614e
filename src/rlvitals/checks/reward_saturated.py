"""R009: the training reward is near its maximum, so there is little left to learn from it."""

from __future__ import annotations

import math
from collections.abc import Mapping

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
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt, now, onset_of, tied_share
from rlvitals.checks.scale import reward_scale
from rlvitals.view import View

MIN_ROWS = 20


def top_metric(view: View) -> tuple[str, float, float]:
    """Return the metric whose maximum is best known, with its floor and its maximum."""
    if view.has("success_frac", 5):
        return "success_frac", 0.0, 1.0
    scale = reward_scale(view)
    low, _, high, _ = view.extremes("reward_mean")
    if not scale.known and low >= 0 and 0.9 < high <= 1.0 and scale.high <= 1.0:
        return "reward_mean", 0.0, 1.0  # a mean that comes this close to 1 and never passes it is a share
    return "reward_mean", scale.low, scale.high


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    metric, low, top = top_metric(view)
    level, limit = now(view, metric, 20), limits["saturated_share"]
    if not top > low:
        return NoData(("reward_max",), f"{metric} has not moved and its maximum is not known")
    place = (level.mean - low) / (top - low)
    if place < limit.value:
        return Clear(f"{metric} is at {place:.0%} of its range {fmt(low)} to {fmt(top)}; limit {limit.value:.0%}")
    known = metric == "success_frac" or reward_scale(view).known or top == 1.0
    ties = tied_share(view, 20)
    if not known and not (ties.size and ties.mean() >= limits["tied_groups"].value):
        return Clear(
            f"{metric} is at the top of what this run has shown, but its maximum is not known and groups still differ"
        )
    right, tied = now(view, "all_right_frac"), now(view, "zero_variance_frac")
    evidence = [
        Evidence(
            metric,
            f"{metric} is {fmt(level.mean)} over the last {level.n} logged steps, {place:.1%} of the range {fmt(low)} "
            f"to {fmt(top)} (limit {limit}{'' if known else '; the maximum is only what this run has shown'})",
            place,
            "of range",
            level.steps,
            limit,
            ">=",
        )
    ]
    second = right if right.n else tied
    if second.n:
        name = "all_right_frac" if right.n else "zero_variance_frac"
        evidence.append(
            Evidence(
                name,
                f"{name} is {second.mean:.2f} over the same steps: that share of groups teaches nothing",
                second.mean,
                "fraction",
                second.steps,
            )
        )
    cut = low + limit.value * (top - low)
    return Fired(
        Finding(
            f"The training reward is near its maximum ({fmt(level.mean)} of {fmt(top)}); "
            + ("held-out scores say whether the task is" if view.evals else "without a held-out score this may be")
            + " solved or the reward exploited",
            Action.FINISH,
            Confidence.MEDIUM if known and math.isfinite(place) else Confidence.LOW,
            onset_of(view, metric, cut, math.inf),
            tuple(evidence),
        )
    )


CHECK = Check(
    id="R009",
    name="reward-saturated",
    family=Family.REWARD,
    fault="The training reward is near its maximum.",
    why="A reward without headroom leaves tied groups and encourages exploitation of the gap between reward and true "
    "quality. It means solved only with a held-out score to confirm it; otherwise it may be a lenient verifier.",
    needs=Needs(any_of=("success_frac", "reward_mean"), rows=MIN_ROWS),
    thresholds=(
        Threshold(
            "saturated_share",
            0.98,
            "of the reward range",
            SourceKind.CONVENTION,
            "GRPO health-check runbook: reward > 0.98",
        ),
        Threshold(
            "tied_groups", 0.5, "of groups", SourceKind.PAPER, "Why GRPO training fails: well below half is healthy"
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Evaluate on held-out tasks before anything else", "", "check"),
                Remedy("If held-out is high: stop, or raise the difficulty", "curriculum", "raise"),
                Remedy("If held-out is flat: probe the verifier with wrong and empty answers", "verifier", "check"),
            ),
            verify=(Verify("fewer than half of the groups are all right", "all_right_frac", "<", 0.5, 20),),
        )
    },
    leads_to=("S001", "R010", "H003", "S005"),
    patience=2,
    look_alikes=(
        LookAlike("near the maximum from step one", "R007: nothing was learned"),
        LookAlike("one component at its maximum, the total is not", "the total reward has headroom"),
    ),
    sources=("GRPO health-check runbook: reward_saturated", "Why GRPO training fails: sparse and saturated rewards"),
)
