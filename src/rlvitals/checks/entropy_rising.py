"""E004: entropy keeps rising over its own start and does not settle."""

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
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import companions, course, entropy_runaway
from rlvitals.checks.common import fmt
from rlvitals.view import View

RUNAWAY = {t.name: t for t in entropy_runaway.CHECK.thresholds}


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    level = course.level(view, "entropy")
    if entropy_runaway.has_run_away(view, RUNAWAY):
        return NotApplicable(f"entropy is past a rise ({fmt(level.ratio)} times its start): see E002 entropy-runaway")
    seen = (
        f"entropy is {fmt(level.now)} nats/token over steps {level.first}-{level.last}, "
        f"{fmt(level.ratio)} times its start {fmt(level.start)}"
    )
    if not level.ratio > limits["factor"].value:
        return Clear(f"{seen}; the limit is {limits['factor']}")
    trend = entropy_runaway.rising(view, limits["trend_z"].value)
    if not trend.rising:
        return Clear(f"{seen}, and the rise is not certain or is settling")
    first = Evidence(
        "entropy",
        f"entropy rose from {fmt(level.start)} nats/token at the start to {fmt(level.now)} over steps "
        f"{level.first}-{level.last}, and still gains {fmt(100 * (np.exp(trend.slope) - 1))}% per logged row "
        f"(at least {fmt(100 * (np.exp(trend.low) - 1))}%); limit {limits['factor']}",
        level.ratio,
        "times",
        level.steps,
        limits["factor"],
        ">",
        level.start,
    )
    onset = course.entered(view, "entropy", level.start, limits["factor"].value * level.start)
    rose = f"entropy rises without settling: {fmt(level.start)} to {fmt(level.now)} nats/token since {onset}"
    bonus = view.config.entropy_coef
    if bonus:
        rose += f" (an entropy bonus of {fmt(bonus)} is configured)"
    worse = companions.worse(view)
    if worse and level.now > limits["level_nats"].value:
        high = Evidence(
            "entropy",
            f"entropy is {fmt(level.now)} nats/token; a rise is meant to stay below {limits['level_nats']}",
            level.now,
            "nats/token",
            level.steps,
            limits["level_nats"],
            ">",
        )
        text = f"{rose}, and the policy got worse"
        return Fired(Finding(text, Action.ADJUST, Confidence.HIGH, onset, (first, high, *worse)))
    return Fired(Finding(rose, Action.WATCH, Confidence.MEDIUM, onset, (first,)))


CHECK = Check(
    id="E004",
    name="entropy-rising",
    family=Family.ENTROPY,
    fault="The policy gets less and less sure: its entropy keeps rising above where this run started.",
    why="Entropy normally declines or settles. A slow rise is intended with a raised upper clip bound or an entropy "
    "bonus; it becomes harmful when it passes about one nat, does not settle, and the score falls. The earlier it is "
    "seen, the less of the run is lost.",
    needs=Needs(all_of=("entropy",), rows=30),
    thresholds=(
        Threshold(
            "factor", 1.5, "times the run's own start", SourceKind.MEASURED, "docs/measurements.md: Entropy rising"
        ),
        Threshold(
            "trend_z", 2.6, "one-sided normal quantile", SourceKind.MEASURED, "docs/measurements.md: Entropy rising"
        ),
        Threshold("level_nats", 1.0, "nats/token", SourceKind.CONVENTION, "author of a clip-higher recipe, rllm#116"),
        companions.REWARD_DROP_Z,
        companions.REWARD_DROP_SHARE,
        companions.HELDOUT_DROP_Z,
    ),
    judge=judge,
    patience=2,
    plans={
        "": Plan(
            remedies=(
                Remedy("Lower the entropy bonus, to zero if it is not needed", "entropy_coef", "lower"),
                Remedy("Lower the upper clip bound if the rise goes on past one nat", "clip_high", "lower"),
                Remedy("Read ten rollouts of now beside ten of the first steps", "", "check"),
            ),
            verify=(Verify("entropy stops rising over the next 40 steps", "entropy", "not rising", None, 40),),
            rollback=Rollback.CURRENT,
        )
    },
    leads_to=("E002", "E003", "L002", "R014", "H002", "Y002", "Y003"),
    look_alikes=(
        LookAlike(
            "Entropy rises with clip-higher and settles", "the second half of the window rises less than half as fast"
        ),
        LookAlike("A one-time step to a higher level", "no trend over the last third of the run"),
    ),
    sources=(
        "GRPO health-check runbook: entropy rising",
        "docs/measurements.md: Entropy rising",
        "docs/false-alarms.md: 20",
    ),
)
