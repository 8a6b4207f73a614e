"""U010: the loss explodes again and again."""

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
    NotApplicable,
    Onset,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt, shift
from rlvitals.view import View

LOSSES = ("policy_loss", "loss")
RECENT = 100  # rows that stand for now: explosions are rare events, a short window would miss them (convention)


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    if "sum" in (view.config.loss_aggregation or ""):
        return NotApplicable("the loss is a sum over the sequence: its size follows length and entropy")
    metric = next((m for m in LOSSES if view.has(m, 30)), None)
    if metric is None:
        return Clear("too few logged losses to explode from")
    steps, values = view.recent(metric)
    size = np.abs(values)
    level = stats.median(size[size > 0])
    if not level > 0:
        return Clear(f"{metric} is 0 in every row")
    factor, absolute, often = limits["factor"], limits["absolute"], limits["often"]
    hit = (size > factor.value * level) & (size > absolute.value)
    now = hit[-RECENT:]
    shown = f"{int(now.sum())} of the last {now.size} values of {metric} are above {factor.value:g} times its own level"
    if now.sum() < often.value:
        return Clear(f"{shown} of {fmt(level)} and above {absolute.value:g}; limit {often.value:g}")
    first, largest = int(steps[hit][0]), float(size.max())
    reward = shift(view, "reward_mean", z=2.6)
    harmed = view.has("reward_mean", 30) and not reward.best_low > 0
    evidence = [
        Evidence(
            metric,
            f"{shown} of {fmt(level)}, the largest {fmt(largest)}, since step {first} (limit {often})",
            float(now.sum()),
            "rows",
            (first, int(steps[-1])),
            often,
            ">=",
            level,
        )
    ]
    if harmed:
        evidence.append(
            Evidence(
                "reward_mean",
                f"reward_mean has not risen: {fmt(reward.early)} in the first third, {fmt(reward.late)} in the last",
                reward.late,
                "reward",
                reward.steps,
                before=reward.early,
            )
        )
    return Fired(
        Finding(
            f"The loss explodes to {fmt(largest)}, {largest / level:.0f} times its own level"
            + (", and the reward does not rise" if harmed else ""),
            Action.ADJUST if harmed else Action.WATCH,
            Confidence.MEDIUM,
            Onset(first, first),
            tuple(evidence),
        )
    )


CHECK = Check(
    id="U010",
    name="loss-spikes",
    family=Family.UPDATE,
    fault="The loss explodes again and again.",
    why="The clipped surrogate is bounded for positive advantages alone: with a negative advantage it grows with the "
    "importance ratio without limit, and k3 grows exponentially with the log-ratio. A loss far above its own level is "
    "a few tokens whose probability changed many times over, and each such step moves the weights at random.",
    needs=Needs(any_of=LOSSES, rows=30),
    thresholds=(
        Threshold("factor", 50, "times its own median size", SourceKind.MEASURED, "docs/measurements.md: loss spikes"),
        Threshold(
            "absolute",
            2,
            "loss",
            SourceKind.DEFINITION,
            "with ratios inside the clip range |loss| is at most (1 + clip) x |advantage|, about 2 on average",
        ),
        Threshold("often", 3, "rows", SourceKind.MEASURED, "docs/measurements.md: loss spikes"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Lower the learning rate", "learning_rate", "lower"),
                Remedy("Bound the ratio for negative advantages too (dual clip or a two-sided bound)", "", "check"),
                Remedy("Lower the gradient-norm limit", "max_grad_norm", "lower"),
                Remedy("Reuse each rollout batch for fewer updates", "updates_per_rollout", "lower"),
            ),
            verify=(Verify("the usual value of the loss is below 2", "loss", "<", 2.0, 50),),
            rollback=Rollback.CURRENT,
        )
    },
    leads_to=("U002", "K001", "E001", "E002", "R002", "R014", "R010"),
    patience=2,
    look_alikes=(
        LookAlike("one spike after which everything goes on", "fewer than three in the last hundred rows"),
        LookAlike("a loss of 0 to four decimals most of the time", "its size in units of the loss as well"),
    ),
    sources=("DeepSeekMath 2402.03300: the clipped surrogate", "INTELLECT-2 2505.07291: two-sided clipping"),
)
