"""L002: completions grow far beyond their own start without the reward following."""

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
    Onset,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt, now, onset_of, relative_z, shift, start
from rlvitals.view import View

GROWN = 1.2  # times the start: where an onset interval opens (convention: beyond the noise of most lengths)
STRICT_Z = 3.3  # normal quantile of a two-sided 0.001


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    first, level = start(view, "length_mean"), now(view, "length_mean", 20)
    ratio = level.mean / first if first > 0 else math.nan
    watch, act = limits["watch_ratio"], limits["act_ratio"]
    if not ratio >= watch.value:
        return Clear(
            f"completions average {level.mean:.0f} tokens against {first:.0f} at the start: {ratio:.2f} times; limit "
            f"{watch.value:g} times"
        )
    reward = shift(view, "reward_mean", z=1.96)
    falling = relative_z(shift(view, "reward_mean", z=STRICT_Z)) < -STRICT_Z
    if reward.best_low > 0 and not falling:
        return Clear(
            f"completions grew {ratio:.1f} times, and the reward with them ({fmt(reward.early)} to {fmt(reward.late)})"
        )
    rising = relative_z(shift(view, "length_mean", z=STRICT_Z)) > STRICT_Z
    hard = ratio >= act.value and falling and rising
    limit = act if hard else watch
    return Fired(
        Finding(
            f"Completions have grown {ratio:.1f} times, {first:.0f} to {level.mean:.0f} tokens, while the reward "
            + ("fell" if falling else "did not rise"),
            Action.ADJUST if hard else Action.WATCH,
            Confidence.HIGH if hard else Confidence.MEDIUM,
            _began(view, first, watch),
            (
                Evidence(
                    "length_mean",
                    f"length_mean is {level.mean:.0f} tokens over the last {level.n} logged steps, {ratio:.2f} times "
                    f"the "
                    f"{first:.0f} of the start (limit {limit})",
                    ratio,
                    "times the start",
                    level.steps,
                    limit,
                    ">=",
                    first,
                ),
                Evidence(
                    "reward_mean",
                    f"reward_mean went from {fmt(reward.early)} to {fmt(reward.late)} over the run",
                    reward.late,
                    "reward",
                    reward.steps,
                    before=reward.early,
                ),
            ),
        )
    )


def _began(view: View, first: float, watch: Threshold) -> Onset:
    """Return the interval from the first lasting growth past the start's noise to the watch limit."""
    early = onset_of(view, "length_mean", GROWN * first, math.inf)
    late = onset_of(view, "length_mean", watch.value * first, math.inf)
    return Onset(min(early.first, late.first), max(early.first, late.last))


CHECK = Check(
    id="L002",
    name="length-runaway",
    family=Family.LENGTH,
    fault="Completions have become much longer than at the start, and the reward has not followed.",
    why="Longer reasoning that earns more is learning. Length without reward is a loss that pays per token, a judge "
    "that likes length, or a policy coming apart; it ends at the token budget.",
    needs=Needs(all_of=("length_mean", "reward_mean"), rows=30),
    thresholds=(
        Threshold("watch_ratio", 2.0, "times the start", SourceKind.CONVENTION, "a doubling is worth a look"),
        Threshold("act_ratio", 3.0, "times the start", SourceKind.MEASURED, "docs/measurements.md: length runaway"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Read recent rollouts: loops, repeated text, other languages", "", "check"),
                Remedy(
                    "Check that the loss does not pay per token, and that the judge does not pay for length",
                    "verifier",
                    "check",
                ),
                Remedy("Add a soft length penalty near the budget", "verifier", "set"),
            ),
            verify=(Verify("length stops growing", "length_mean", "not rising", None, 50),),
            rollback=Rollback.BEFORE_ONSET,
        )
    },
    leads_to=("L001", "L004", "R014", "R002"),
    patience=2,
    look_alikes=(
        LookAlike("reasoning grows longer and better", "the reward rises over the same steps"),
        LookAlike("a slow drift of length", "less than twice the start"),
    ),
    sources=("Why GRPO training fails: sequence length and truncation", "docs/measurements.md: Length runaway"),
)
