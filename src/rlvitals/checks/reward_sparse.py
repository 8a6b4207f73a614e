"""R013: so few rollouts succeed that most groups carry no signal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

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
    NotApplicable,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import RECENT, fmt, now, onset_of, shift
from rlvitals.view import View

DEFAULT_GROUP = 8  # used in the sentence only where the group size is unknown (the usual one)


def success(view: View) -> tuple[str, float] | None:
    """Return the recent pass rate and its metric; a reward counts as one only when it stays within 0..1."""
    if view.has("success_frac", 30):
        return "success_frac", now(view, "success_frac").mean
    low, _, high, _ = view.extremes("reward_mean")
    top = view.config.reward_max if view.config.reward_max is not None else 1.0
    if low >= 0.0 and high <= top and view.config.reward_min in (None, 0.0) and top == 1.0:
        return "reward_mean", now(view, "reward_mean").mean
    return None


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    got = success(view)
    if got is None:
        return NotApplicable("the reward is not a pass rate between 0 and 1, so successes cannot be counted")
    metric, rate = got
    group, limit = view.config.group_size or DEFAULT_GROUP, limits["pass_rate"]
    level = now(view, metric)
    if rate >= limit.value or (level.low == level.high == 0.0):
        return Clear(f"{metric} is {fmt(rate)} over the last {level.n} logged steps; limit {limit.value:g}")
    if shift(view, metric).low > 0:
        return Clear(f"{metric} is only {fmt(rate)}, but rising over the run")
    signal = 1 - (1 - rate) ** group - rate**group
    length = now(view, "length_mean")
    cost = (
        f"; about {length.mean / max(rate, 1e-9):,.0f} sampled tokens per success"
        if length.n and np.isfinite(length.mean)
        else ""
    )
    return Fired(
        Finding(
            f"Rewards are sparse: {rate:.1%} of rollouts succeed and at most {signal:.0%} of groups carry a signal",
            Action.WATCH,
            Confidence.MEDIUM,
            onset_of(view, metric, -np.inf, limit.value),
            (
                Evidence(
                    metric,
                    f"{metric} is {fmt(rate)} over the last {level.n} logged steps (limit {limit}): with groups of "
                    f"{group}, at "
                    f"most {signal:.0%} of them have both a success and a failure{cost}",
                    rate,
                    "fraction",
                    level.steps,
                    limit,
                    "<",
                ),
            ),
        )
    )


CHECK = Check(
    id="R013",
    name="sparse-reward",
    family=Family.REWARD,
    fault="Rewards are so rare that most groups, and nearly all tokens, carry no signal.",
    why="A binary reward at the end of a long episode gives one bit for thousands of tokens. At a pass rate of 1%, a "
    "group of 8 has a success in 8% of the cases; learning will be slow at best.",
    needs=Needs(any_of=("success_frac", "reward_mean"), rows=30),
    thresholds=(
        Threshold(
            "pass_rate",
            0.03,
            "of rollouts",
            SourceKind.CONVENTION,
            f"fewer than a quarter of groups of 8 are mixed (last {RECENT} logged steps)",
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Start on an easier tier and move up as it is learned", "curriculum", "lower"),
                Remedy("Add partial credit from milestones that can be verified", "verifier", "set"),
                Remedy("Sample more rollouts per prompt", "group_size", "raise"),
            ),
            verify=(Verify("the pass rate rises above 10%", "success_frac", ">", 0.1, 50),),
        )
    },
    leads_to=("S001", "R010", "S004"),
    patience=2,
    look_alikes=(
        LookAlike("no success at all", "T001: base success near zero"),
        LookAlike("a low pass rate that is rising", "the lower bound of its rise is above 0"),
    ),
    sources=("Why GRPO training fails: sparse and saturated rewards", "docs/evidence.md: Finite-group law"),
)
