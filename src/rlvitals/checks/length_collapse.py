"""L003: completions have shrunk to a small part of their own start."""

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
    Onset,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import Level, fmt, now, onset_of, reward_scale
from rlvitals.view import View

HEAD = 5  # first values for the start: the fall can be over within ten steps
RECENT = 10
SHRUNK = 0.8  # times the start: where an onset interval opens (convention: beyond the noise of most lengths)


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    first, level = float(view.head("length_mean", HEAD).mean()), now(view, "length_mean", RECENT)
    recent = stats.median(view.recent("length_mean")[1][-RECENT:])  # outlasts single long answers
    ratio = recent / first if first > 0 else math.nan
    watch, act = limits["watch_ratio"], limits["act_ratio"]
    if not ratio <= watch.value:
        return Clear(
            f"completions average {recent:.0f} tokens against {first:.0f} at the start: {ratio:.2f} times; limit "
            f"{watch.value:g} times"
        )
    metric, top, place, reward = _earned(view)
    if place >= limits["good_reward"].value:
        return Clear(
            f"completions shrank to {ratio:.2f} times their start while {metric} is {fmt(reward.mean)} of {fmt(top)}: "
            f"short "
            "answers that score"
        )
    cut_head = view.head("truncated_frac", HEAD)
    was_cut = float(cut_head.mean()) if cut_head.size else math.nan
    averse = was_cut >= 0.1 and now(view, "truncated_frac", RECENT).mean < 0.02
    hard = ratio <= act.value
    limit = act if hard else watch
    return Fired(
        Finding(
            f"Completions collapsed from {first:.0f} to {recent:.0f} tokens"
            + (
                ": the policy learned to avoid the token budget, not the task"
                if averse
                else " while the reward stays low"
            ),
            Action.FIX if hard else Action.WATCH,
            Confidence.HIGH if hard and averse else Confidence.MEDIUM,
            _began(view, first, watch),
            (
                Evidence(
                    "length_mean",
                    f"length_mean has a median of {recent:.1f} tokens over the last {level.n} logged steps, "
                    f"{ratio:.2f} times the "
                    f"{first:.0f} of the first {HEAD} (limit {limit})",
                    ratio,
                    "times the start",
                    level.steps,
                    limit,
                    "<=",
                    first,
                ),
                Evidence(
                    metric,
                    f"{metric} is {fmt(reward.mean)} of {fmt(top)} over the same steps"
                    + (f"; {was_cut:.0%} of completions were cut at the start" if averse else ""),
                    reward.mean,
                    "reward",
                    reward.steps,
                    limits["good_reward"],
                    "<",
                ),
            ),
            "aversion" if averse else "",
        )
    )


def _earned(view: View) -> tuple[str, float, float, Level]:
    """Return (metric, its maximum, where the recent level lies between floor and maximum, that level)."""
    metric = "success_frac" if view.has("success_frac", 10) else "reward_mean"
    scale, reward = reward_scale(view), now(view, metric, 20)
    top = 1.0 if metric == "success_frac" or (scale.low >= 0 and scale.high <= 1) else scale.high
    floor = 0.0 if metric == "success_frac" else min(scale.low, 0.0)
    place = (reward.mean - floor) / (top - floor) if top > floor else math.nan
    return metric, top, place, reward


def _began(view: View, first: float, watch: Threshold) -> Onset:
    """Return the interval from the first lasting fall past the start's noise to the watch limit."""
    early = onset_of(view, "length_mean", -math.inf, SHRUNK * first)
    late = onset_of(view, "length_mean", -math.inf, watch.value * first)
    return Onset(min(early.first, late.first), max(early.first, late.last))


CHECK = Check(
    id="L003",
    name="length-collapse",
    family=Family.LENGTH,
    fault="Completions have shrunk to a small part of their length at the start, and the reward is still low.",
    why="Where cut or long answers are punished and short ones are not, stopping at once is the easiest way to be "
    "punished less. The policy then no longer works on the task.",
    needs=Needs(all_of=("length_mean", "reward_mean"), rows=20),
    thresholds=(
        Threshold("watch_ratio", 0.25, "times the start", SourceKind.CONVENTION, "a fall to a quarter is worth a look"),
        Threshold("act_ratio", 0.1, "times the start", SourceKind.MEASURED, "docs/measurements.md: length collapse"),
        Threshold(
            "good_reward", 0.5, "of the reward's maximum", SourceKind.MEASURED, "docs/measurements.md: length collapse"
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Read rollouts: is there still an attempt at the task?", "", "check"),
                Remedy("Check what the reward pays for empty and one-word answers", "verifier", "check"),
                Remedy("Raise the token budget, so that finishing is possible", "token_budget", "raise"),
                Remedy("Aggregate the loss per token instead of per sequence", "", "check"),
            ),
            verify=(Verify("length stops falling", "length_mean", "not falling", None, 30),),
            rollback=Rollback.BEFORE_ONSET,
        )
    },
    leads_to=("E001", "R010", "R014", "S001", "H001", "H002"),
    patience=2,
    look_alikes=(
        LookAlike("a base model sheds text and scores better", "the reward is above half of its maximum"),
        LookAlike("a moderate shortening", "more than a quarter of the start is left"),
    ),
    sources=("docs/false-alarms.md: 22", "EasyR1#40", "VLM-R1#280"),
)
