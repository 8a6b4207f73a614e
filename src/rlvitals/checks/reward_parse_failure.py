"""R004: too many answers cannot be read by the parser."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rlvitals import shares
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
from rlvitals.checks.base_success import JUDGEABLE, measure, nearly_never
from rlvitals.checks.common import Level, now, onset_of, relative_z, rollouts_per_row, shift, start
from rlvitals.view import View

METRIC = "parse_failure_frac"
READ = 100  # answers that were parsed, below which they say nothing of the task
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
    none_right = _none_right(view, level, limits["parsed_right"]) if most else None
    sure = most and not falling and none_right is None
    text = f"{level.mean:.0%} of the answers cannot be parsed"
    if none_right is not None:
        text += ", and hardly any of those that are parsed is right: the parser alone does not keep the reward down"
    elif most:
        text += ": the reward measures formatting more than the task"
    return Fired(
        Finding(
            text,
            Action.FIX if sure else Action.WATCH,
            Confidence.HIGH if sure else Confidence.MEDIUM,
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
                *(() if none_right is None else (none_right,)),
            ),
        )
    )


def _none_right(view: View, failed: Level, limit: Threshold) -> Evidence | None:
    """Return the evidence that the answers that are read are wrong too; None where that is not sure.

    Then the parser alone does not keep the reward down. Of a policy that solved tasks before, the few answers that are
    read would still be right; where it never did, the task is what it cannot do, and T001 says so.
    """
    if failed.mean >= JUDGEABLE.value or not (_solved_before(view, limit) or _never_solved(view)):
        return None
    right, rollouts = now(view, "success_frac", 20), rollouts_per_row(view)
    read = 1.0 - failed.mean
    if rollouts is None or right.n < failed.n or read * rollouts * failed.n < READ:
        return None
    n = read * rollouts * failed.n
    share = min(right.mean / read, 1.0)
    upper = shares.wilson(share * n, n)[1]
    if not upper <= limit.value:
        return None
    text = f"{share:.1%} of the {n:.0f} answers that were parsed are right, at most {upper:.1%}; limit {limit}"
    return Evidence("success_frac", text, upper, "of parsed answers", right.steps, limit, "<=")


def _solved_before(view: View, limit: Threshold) -> bool:
    return start(view, "success_frac") > limit.value


def _never_solved(view: View) -> bool:
    got = measure(view)
    return got is not None and nearly_never(got)


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
            "parsed_right",
            0.05,
            "of parsed answers",
            SourceKind.CONVENTION,
            "answers that are read and wrong say that the task is not solved, whatever the parser misses",
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
    leads_to=("T001", "R001", "R002", "R010", "R013", "S001", "R003", "H002"),
    patience=2,
    look_alikes=(
        LookAlike("the format is still being learned", "the share falls by more than its noise"),
        LookAlike("tasks that the policy cannot solve, and garbles", "those that are parsed are wrong too: watch"),
        LookAlike("answers cut before the end", "truncated_frac is as high: L001 comes with it"),
    ),
    sources=("Why GRPO training fails: format and parsing failures",),
)
