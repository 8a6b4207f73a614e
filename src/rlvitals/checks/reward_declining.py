"""R014: the reward is falling slowly from the level it had reached."""

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
    Onset,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import coarse, fmt
from rlvitals.checks.scale import reward_scale
from rlvitals.view import View

STRICT_Z = 3.3  # normal quantile of a two-sided 0.001


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    x, y = coarse(view, "reward_mean")
    quarter = max(y.size // 4, 5)
    late = y[-quarter:]
    at = int(np.argmax(stats.running_means(y[:-quarter], quarter)))
    best, scale, limit = y[at : at + quarter], reward_scale(view), limits["fallen_share"]
    share = (stats.mean(best) - stats.mean(late)) / scale.span if scale.span > 0 else 0.0
    drop = stats.change(best, late, z=STRICT_Z) if share >= limit.value else None  # bounds only where they decide
    if drop is None or not drop.high < 0 or not stats.trend(x[at:], y[at:], z=2.6).falling:
        return Clear(
            f"reward_mean is {fmt(stats.mean(late))} in the last quarter against {fmt(stats.mean(best))} in its "
            f"best one: "
            f"{max(share, 0):.0%} of its range; limit {limit.value:.0%} with a falling trend at z {STRICT_Z}"
        )
    first, last = int(x[min(at + quarter // 2, x.size - 1)]), int(x[-quarter])
    return Fired(
        Finding(
            f"The reward has been falling: {fmt(drop.early)} at its best, {fmt(drop.late)} now",
            Action.WATCH,
            Confidence.MEDIUM,
            Onset(min(first, last), max(first, last)),
            (
                Evidence(
                    "reward_mean",
                    f"reward_mean fell from {fmt(drop.early)} around step {int(x[at])} to {fmt(drop.late)} in the "
                    f"last quarter "
                    f"(at least {-drop.high:.3g} at z {STRICT_Z}; {share:.0%} of its range {fmt(scale.low)} to "
                    f"{fmt(scale.high)}; limit {limit})",
                    share,
                    "of range",
                    (int(x[at]), int(view.step)),
                    limit,
                    ">=",
                    drop.early,
                ),
            ),
        )
    )


CHECK = Check(
    id="R014",
    name="reward-declining",
    family=Family.REWARD,
    fault="The reward is falling from the level that it had reached.",
    why="A healthy reward rises within its noise and then flattens. A lasting fall is a consequence: read the findings "
    "that began before it.",
    needs=Needs(all_of=("reward_mean",), rows=60),
    thresholds=(
        Threshold(
            "fallen_share", 0.1, "of the reward range", SourceKind.CONVENTION, "smaller falls are not worth a look"
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Look at what moved first: entropy, KL, length, log-probability gap", "", "check"),
                Remedy("Lower the learning rate if nothing else moved", "learning_rate", "lower"),
            ),
            verify=(Verify("the reward stops falling", "reward_mean", "not falling", None, 50),),
            rollback=Rollback.NONE,
        )
    },
    leads_to=("H002",),
    patience=3,
    look_alikes=(
        LookAlike("binomial noise with few prompts per step", "the bound of the fall and the trend since"),
        LookAlike("harder tasks were added", "the success rate per tier holds"),
    ),
    sources=("docs/measurements.md: Trend tests under AR(1) noise",),
)
