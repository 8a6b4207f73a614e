"""R007: the reward is at its maximum from the first step on."""

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
    NotApplicable,
    Onset,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import course
from rlvitals.checks.common import fmt, now, tied_share
from rlvitals.view import View

FIRST = 4  # first logged steps that must be near the maximum: before any learning can have happened
EARLY = 20  # first logged steps that must be at the limit on the mean where the very first miss it by noise
BOUND_Z = 1.64  # normal quantile of a one-sided 0.05
LATEST_START = 10  # a log that begins later than this step does not show the start of the run


def maximum(view: View) -> tuple[str, float] | None:
    """Return the metric to judge and its maximum: success 1, the config's, or 1 for a reward that never passes it."""
    if view.has("success_frac", FIRST):
        return "success_frac", 1.0
    if view.config.reward_max is not None:
        return "reward_mean", view.config.reward_max
    low, _, high, _ = view.extremes("reward_mean")
    return ("reward_mean", 1.0) if low >= 0.0 and high <= 1.0 else None


def _at_once(view: View, metric: str, cut: float) -> bool:
    """True when the first rows are at the limit, or below it by no more than the noise of the next ones, at it.

    A reward that is learned begins further below than rows scatter that no longer rise. Rows far apart in steps have
    had the time to learn.
    """
    head, early = view.head(metric, FIRST), view.head(metric, EARLY)
    begin, later = float(head.mean()), early[FIRST:]
    if begin >= cut:
        return True
    if early.size < EARLY or early.mean() < cut or FIRST * course.row_spacing(view, metric) > LATEST_START:
        return False
    return begin + BOUND_Z * float(later.std(ddof=1)) / math.sqrt(head.size) >= cut


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    if view.first_step > LATEST_START:
        return NotApplicable(f"the log begins at step {view.first_step}, so the run's start is not in it")
    known = maximum(view)
    if known is None:
        return NotApplicable("the maximum of the reward is not known and it is not a share")
    metric, top = known
    floor = view.config.reward_min if metric == "reward_mean" and view.config.reward_min is not None else 0.0
    limit = limits["perfect_share"]
    cut = floor + limit.value * (top - floor)
    head, level = view.head(metric, FIRST), now(view, metric, 20)
    begin = float(head.mean())  # one row of some dozens of rollouts misses the limit by chance
    if not _at_once(view, metric, cut) or level.mean < cut:
        return Clear(
            f"{metric} averaged {fmt(begin)} in its first {head.size} logged steps and is {fmt(level.mean)} now; "
            f"limit {fmt(cut)} for both"
        )
    ties = tied_share(view)
    evidence = [
        Evidence(
            metric,
            f"{metric} averaged {fmt(begin)} in the first {head.size} logged steps and is {fmt(level.mean)} now, of at "
            f"most {fmt(top)} (limit {limit})",
            begin,
            "",
            (view.first_step, view.step),
            limit,
            ">=",
        )
    ]
    tied = float(ties.mean()) if ties.size else float("nan")
    if ties.size:
        evidence.append(
            Evidence(
                "zero_variance_frac",
                f"{tied:.0%} of the groups have no reward difference (limit {limits['tied_groups']})",
                tied,
                "fraction",
                (view.first_step, view.step),
                limits["tied_groups"],
                ">=",
            )
        )
    sure = tied >= limits["tied_groups"].value or level.mean >= top
    return Fired(
        Finding(
            f"The reward is at its maximum from the first step ({fmt(float(head[0]))} of {fmt(top)}): the verifier "
            f"accepts "
            "everything, or the tasks were solved before training",
            Action.FIX if sure else Action.WATCH,
            Confidence.HIGH if tied >= limits["tied_groups"].value else Confidence.MEDIUM,
            Onset(view.first_step, view.first_step),
            tuple(evidence),
        )
    )


CHECK = Check(
    id="R007",
    name="perfect-from-step-one",
    family=Family.REWARD,
    fault="The reward is at its maximum before any training can have raised it.",
    why="A policy that has not been trained yet rarely solves everything. A verifier that accepts unparseable gold or "
    "empty answers scores 1 from the first step; and if the tasks really are solved, there is nothing to learn.",
    needs=Needs(any_of=("success_frac", "reward_mean"), rows=5),
    thresholds=(
        Threshold(
            "perfect_share",
            0.98,
            "of the maximum",
            SourceKind.MEASURED,
            "docs/measurements.md: perfect from step one (ms-swift#3130, open-r1#159)",
        ),
        Threshold(
            "tied_groups",
            0.75,
            "of groups",
            SourceKind.DEFINITION,
            "a tied group has zero advantage and teaches nothing",
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Score wrong, empty and prompt-only answers: they must get nothing", "verifier", "check"),
                Remedy(
                    "Count gold answers that could not be parsed; drop those rows instead of paying them",
                    "verifier",
                    "check",
                ),
                Remedy("If the verifier is right, use harder tasks", "curriculum", "raise"),
            ),
            verify=(Verify("the reward has headroom over the next 20 steps", "reward_mean", "<", 0.9, 20),),
        )
    },
    leads_to=("R001", "R009", "R010", "S001", "S005", "T002", "U007", "U008", "K002"),
    look_alikes=(
        LookAlike("a resumed run that had learned before", "the log begins at a later step"),
        LookAlike("a reward that rose to its maximum", "its first steps were lower"),
    ),
    sources=("docs/false-alarms.md: 37", "docs/measurements.md: Perfect from step one"),
)
