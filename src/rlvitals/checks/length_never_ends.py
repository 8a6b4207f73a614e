"""L004: no completion ends by itself."""

from __future__ import annotations

import math
from collections.abc import Mapping

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
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import Level, cut, fmt, now, onset_of, shift
from rlvitals.view import View

ROWS = 20
START_ROWS = 5  # first logged values (convention)
STRICT_Z = 2.6  # normal quantile of a two-sided 0.01


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    got, ended = cut(view, ROWS), now(view, "terminated_length_mean", ROWS)
    if got is not None and got.mismatched:
        return Clear("completions are reported as cut, but their lengths stay well below the budget: see L005")
    limit = limits["ended_share"]
    share = now(view, "truncated_frac", ROWS)
    if share.n:
        done = 1 - share.mean
        if done > limit.value:
            return Clear(f"{done:.1%} of completions end by themselves over the last {share.n} logged steps")
        metric, level = "truncated_frac", share
    else:
        if ended.high > 0:
            return Clear(f"completions that end by themselves average up to {ended.high:.0f} tokens")
        metric, level = "terminated_length_mean", ended
    learning = shift(view, "reward_mean", z=STRICT_Z).best_low > 0
    low, high = (1 - limit.value, float("inf")) if metric == "truncated_frac" else (0.0, 0.0)
    length = now(view, "length_mean", ROWS)
    budget = f" of a budget of {got.budget:.0f} tokens" if got is not None and got.budget else ""
    size = f"; completions average {length.mean:.0f} tokens{budget}" if length.n else ""
    began = stats.mean(view.head("truncated_frac", START_ROWS))
    if learning and began < limits["ended_at_first"].value:
        return _paid(view, limits, began, level, size)
    return Fired(
        Finding(
            "No completion ends by itself: every one is cut at the token budget"
            + (", although the reward rises" if learning else ", so its end never counts"),
            Action.WATCH if learning else Action.FIX,
            Confidence.HIGH,
            onset_of(view, metric, low, high),
            (
                Evidence(
                    metric,
                    f"{metric} is {level.mean:.3g} over the last {level.n} logged steps{size} (limit {limit})",
                    level.mean,
                    "fraction" if metric == "truncated_frac" else "tokens",
                    level.steps,
                    limit,
                    ">=" if metric == "truncated_frac" else "==",
                ),
            ),
        )
    )


def _paid(view: View, limits: Mapping[str, Threshold], began: float, level: Level, size: str) -> Fired:
    """Fire where completions used to end, none does any more, and the reward rose."""
    moved, limit = shift(view, "reward_mean", z=STRICT_Z), limits["ended_at_first"]
    return Fired(
        Finding(
            f"Completions stopped ending ({began:.0%} were cut at the start, {level.mean:.0%} are now) while the "
            f"reward rose to {fmt(now(view, 'reward_mean', ROWS).mean)}: it pays for answers that never end",
            Action.FIX,
            Confidence.HIGH,
            onset_of(view, "truncated_frac", limit.value, math.inf),
            (
                Evidence(
                    "truncated_frac",
                    f"truncated_frac went from {began:.2f} in the first {START_ROWS} logged steps to {level.mean:.3g} "
                    f"over the last {level.n}{size} (limit {limit})",
                    level.mean,
                    "fraction",
                    level.steps,
                    limit,
                    ">=",
                    began,
                ),
                Evidence(
                    "reward_mean",
                    f"reward_mean went from {fmt(moved.early)} in the first third to {fmt(moved.late)} in the last",
                    moved.late,
                    "reward",
                    moved.steps,
                    before=moved.early,
                ),
            ),
            "paid",
        )
    )


CHECK = Check(
    id="L004",
    name="nothing-finishes",
    family=Family.LENGTH,
    fault="Practically every completion is cut at the token budget; none ends by itself.",
    why="Without an end there is often no answer, and reward, difficulty and verifier cannot be judged. The budget or "
    "the stop tokens have to be right before anything else is looked at.",
    needs=Needs(any_of=("truncated_frac", "terminated_length_mean"), rows=5),
    thresholds=(
        Threshold(
            "ended_share",
            0.01,
            "of completions end by themselves",
            SourceKind.DEFINITION,
            "a completion is an answer that ends",
        ),
        Threshold("ended_at_first", 0.5, "of completions cut", SourceKind.DEFINITION, "most of them used to end"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Read three completions: do they end, loop, or stop mid-sentence?", "", "check"),
                Remedy("Compare the stop tokens of model, tokenizer and sampler", "", "check"),
                Remedy("Raise the token budget", "token_budget", "raise"),
            ),
            verify=(Verify("most completions end by themselves", "truncated_frac", "<", 0.2, 20),),
        ),
        "paid": Plan(
            remedies=(
                Remedy("Read three completions: what is paid for although no answer ends?", "", "check"),
                Remedy(
                    "Let cut and timed-out completions earn nothing, or leave them out of the loss", "verifier", "set"
                ),
                Remedy("Resume from a checkpoint before completions stopped ending", "", ""),
            ),
            verify=(Verify("most completions end by themselves", "truncated_frac", "<", 0.2, 20),),
            rollback=Rollback.BEFORE_ONSET,
        ),
    },
    leads_to=(
        "L001",
        "L002",
        "T001",
        "R001",
        "R004",
        "R010",
        "R013",
        "S001",
        "S005",
        "U007",
        "U008",
        "U009",
        "K002",
        "R009",
        "E001",
    ),
    look_alikes=(
        LookAlike("a second end-of-sequence token", "lengths stay below the budget: L005"),
        LookAlike(
            "generation that stops on text, not on a token",
            "the reward rises all the same, and cut from the first step: watch",
        ),
    ),
    sources=("docs/false-alarms.md: 23", "trl#5697"),
)
