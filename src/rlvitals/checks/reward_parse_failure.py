"""R004: too many answers cannot be read by the parser."""

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
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import now, onset_of, relative_z, shift, start
from rlvitals.view import View

METRIC = "parse_failure_frac"
STRICT_Z = 2.6  # normal quantile of a two-sided 0.01


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    level, first = now(view, METRIC, 20), start(view, METRIC)
    watch, act = limits["watch_share"], limits["majority"]
    moved = shift(view, METRIC, z=STRICT_Z)
    falling = relative_z(moved) < -STRICT_Z
    if level.mean < watch.value or (falling and level.mean < act.value):
        return Clear(
            f"parse failures are {level.mean:.0%} over the last {level.n} logged steps, from {first:.0%} at the start; "
            f"limit {watch.value:.0%}" + (", and falling" if falling else "")
        )
    most = level.mean >= act.value
    limit = act if most else watch
    return Fired(
        Finding(
            f"{level.mean:.0%} of the answers cannot be parsed: the reward measures formatting more than the task"
            if most
            else f"{level.mean:.0%} of the answers cannot be parsed",
            Action.FIX if most and not falling else Action.WATCH,
            Confidence.HIGH if most and not falling else Confidence.MEDIUM,
            onset_of(view, METRIC, limit.value, math.inf),
            (
                Evidence(
                    METRIC,
                    f"parse failures are {level.mean:.0%} of rollouts over the last {level.n} logged steps, from "
                    f"{first:.0%} at the start{' and falling' if falling else ''} (limit {limit})",
                    level.mean,
                    "fraction",
                    level.steps,
                    limit,
                    ">=",
                    first,
                ),
            ),
        )
    )


CHECK = Check(
    id="R004",
    name="parse-failure-high",
    family=Family.REWARD,
    fault="A large share of the answers cannot be read by the parser, and the share does not fall.",
    why="What the parser cannot read scores zero, so with a high steady rate the reward measures formatting rather "
    "than the capability; often the parser misses a changed output style.",
    needs=Needs(all_of=(METRIC,), rows=10),
    thresholds=(
        Threshold(
            "watch_share",
            0.2,
            "of rollouts",
            SourceKind.CONVENTION,
            "a fifth; lasting errors are a smell from 5% (prime-rl documentation)",
        ),
        Threshold(
            "majority",
            0.5,
            "of rollouts",
            SourceKind.DEFINITION,
            "when most rollouts are not read, formatting decides most rewards",
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Read 20 unparsed answers and compare them with what the parser expects", "parser", "check"),
                Remedy("Widen the parser or state the format in the prompt", "parser", "set"),
                Remedy("Warm-start the format with supervised examples", "curriculum", "lower"),
            ),
            verify=(Verify("parse failures fall below 20%", METRIC, "<", 0.2, 30),),
        )
    },
    leads_to=("T001", "R001", "R010", "R013", "S001", "R003", "H002"),
    patience=2,
    look_alikes=(
        LookAlike("the format is still being learned", "the share falls by more than its noise"),
        LookAlike("answers cut before the end", "truncated_frac is as high: L001 comes with it"),
    ),
    sources=("Why GRPO training fails: format and parsing failures",),
)
