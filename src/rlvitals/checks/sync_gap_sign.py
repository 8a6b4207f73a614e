"""Y006: sampler and trainer disagree mainly on rollouts that are pushed down."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlvitals.check import (
    Action,
    Check,
    Clear,
    Confidence,
    Family,
    Finding,
    Fired,
    LookAlike,
    Needs,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import companions, sampler_gap
from rlvitals.checks.common import fmt, onset_of
from rlvitals.checks.rollout_common import Recent, certainty, speaks
from rlvitals.view import View

UP, DOWN = "rollouts/gap_positive_mean", "rollouts/gap_negative_mean"
LEVEL = next(t for t in sampler_gap.LEVELS if t.name == "logprob_gap_mean")
K = 20


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    up, down = view.rows_of(UP, 2 * K), view.rows_of(DOWN, 2 * K)
    both = np.flatnonzero(np.isfinite(up) & np.isfinite(down) & (up > 0) & (down > 0))[-K:]
    if both.size < 5:
        return Clear(f"{both.size} recent steps have both signs; 5 are needed")
    logs = np.log(down[both] / up[both])
    times, z = float(np.exp(logs.mean())), certainty(logs)
    now = Recent(DOWN, view.steps_of(2 * K)[both], down[both])
    ratio, level, sure = limits["times"], limits["logprob_gap_mean"], limits["z"]
    seen = f"the gap is {fmt(now.mean)} nats on rollouts pushed down, {fmt(float(up[both].mean()))} on those pushed up"
    if times < ratio.value or z < sure.value or now.mean < level.value:
        return Clear(f"{seen} ({fmt(times)} times); limits {ratio} and {level}")
    shown = view.examples("token-mismatch", 3)
    first = speaks(now, seen, ratio, ">=", observed=times, before=1.0, examples=shown)
    second = speaks(now, f"that gap is {fmt(now.mean)} nats", level, ">=")
    worse = companions.reward_fell(view)
    onset = onset_of(view, DOWN, level.value, np.inf)
    what = f"sampler and trainer disagree {fmt(times)} times as much on rollouts that are pushed down"
    return Fired(
        Finding(
            f"{what}, and the reward fell" if worse else what,
            Action.ADJUST if worse else Action.WATCH,
            Confidence.HIGH if worse else Confidence.LOW,
            onset,
            (first, second, *worse),
        )
    )


CHECK = Check(
    id="Y006",
    name="gap-on-negative-advantage",
    family=Family.SYNC,
    fault="Sampler and trainer disagree mainly on the rollouts that are pushed down.",
    why="Pushing down tokens that the current policy would hardly sample any more has no bound: their log-probability "
    "can fall for ever. Stale or badly scored rollouts do most harm there; some recipes mask exactly those sequences.",
    needs=Needs(all_of=(UP, DOWN), rows=10),
    thresholds=(
        Threshold("times", 1.5, "times the gap of rollouts pushed up", SourceKind.CONVENTION, "half as much again"),
        LEVEL,
        Threshold("z", 4, "standard errors", SourceKind.MEASURED, "docs/measurements.md: Rollout checks"),
        companions.REWARD_DROP_Z,
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Mask sequences with a negative advantage and a large gap", "sync", "set"),
                Remedy("Turn on the importance correction, truncated at 2", "sync", "set"),
            ),
            verify=(Verify("the gap is the same for both signs", DOWN, "<", LEVEL.value, 20),),
        ),
    },
    leads_to=("R014", "E002", "U002", "K001"),
    patience=2,
    look_alikes=(
        LookAlike(
            "Wrong answers are longer and less sure, so their gap is a little larger", "below 1.5 times, or small"
        ),
        LookAlike("A gap equally large for both signs", "logprob-gap-level judges it"),
    ),
    sources=("docs/evidence.md: Healthy bands and their sources", "DeepSeek-R1 2501.12948"),
)
