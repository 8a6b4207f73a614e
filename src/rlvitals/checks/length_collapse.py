"""L003: completions have shrunk to a small part of their own start."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rlvitals import shares, stats
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
from rlvitals.checks import companions
from rlvitals.checks.common import Level, fmt, now, onset_of, rollouts_per_row, shift
from rlvitals.checks.course import row_spacing
from rlvitals.checks.scale import reward_scale
from rlvitals.view import View

HEAD = 5  # first values for the start: the fall can be over within ten steps
RECENT = 10
WRITTEN = 4.0  # tokens at the start: an answer was written (convention)
STOP_COUNTED = ("TRL", "unsloth", "ms-swift", "verl")  # trainers whose lengths count the stop token
AT_ONCE = 0.5  # of the share cut over the first steps: in the first row already, within its 95% interval (convention)
NO_LONGER_CUT = 0.05  # share of completions still cut (convention)
SHRUNK = 0.8  # times the start: where an onset interval opens (convention: beyond the noise of most lengths)


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    first, level = _begin(view, "length_mean"), now(view, "length_mean", RECENT)
    recent = stats.median(view.recent("length_mean")[1][-RECENT:])  # outlasts single long answers
    ratio = recent / first if first > 0 else math.nan
    watch = limits["watch_ratio"]
    if not ratio <= watch.value:
        return _averse(view, limits, first, level) or Clear(
            f"completions average {recent:.0f} tokens against {first:.0f} at the start: {ratio:.2f} times; limit "
            f"{watch.value:g} times"
        )
    metric, top, place, reward = _earned(view)
    empty = recent <= limits["empty"].value and first >= WRITTEN and view.trainer.name in STOP_COUNTED
    if empty and place >= limits["empty_reward"].value:
        return _empty(view, limits, first, level, metric, reward)
    if place >= limits["good_reward"].value:
        return Clear(
            f"completions shrank to {ratio:.2f} times their start while {metric} is {fmt(reward.mean)} of {fmt(top)}: "
            f"short "
            "answers that score"
        )
    return _collapsed(view, limits, first, level, recent)


def _collapsed(view: View, limits: Mapping[str, Threshold], first: float, level: Level, recent: float) -> Fired:
    metric, top, _, reward = _earned(view)
    ratio, watch, act = recent / first, limits["watch_ratio"], limits["act_ratio"]
    was_cut = _cut_at_first(view)
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


def _begin(view: View, metric: str) -> float:
    """Return the mean of about the first HEAD steps, of two logged values at least; NaN without any."""
    return stats.mean(view.head(metric, max(2, round(HEAD / max(row_spacing(view, metric), 1.0)))))


def _cut_at_first(view: View) -> float:
    """Return the share cut over about the first HEAD steps; NaN where the first row surely had less than half of it.

    A budget cuts from the first answer on; what is cut only after the first update is what that update did. A row of
    few rollouts may hold few that were cut by chance.
    """
    share, head, rollouts = _begin(view, "truncated_frac"), view.head("truncated_frac", 1), rollouts_per_row(view)
    if not head.size:
        return math.nan
    first = float(head[0])
    most = shares.wilson(first * rollouts, rollouts)[1] if rollouts and 0 <= first <= 1 else first
    return share if most >= AT_ONCE * share else math.nan


def _averse(view: View, limits: Mapping[str, Threshold], first: float, level: Level) -> Fired | None:
    """Fire where many completions were cut at first, none is now, they are shorter, and that has not paid at all."""
    was_cut, cut = _cut_at_first(view), now(view, "truncated_frac", RECENT)
    limit, ratio = limits["cut_at_first"], level.mean / first if first > 0 else math.nan
    steps = view.count("reward_mean") * row_spacing(view, "reward_mean")
    if not (was_cut >= limit.value and cut.mean < NO_LONGER_CUT and ratio <= limits["averse_ratio"].value):
        return None
    metric, top, place, reward = _earned(view)
    if steps < limits["averse_steps"].value or place >= limits["good_reward"].value or shift(view, metric).best_low > 0:
        return None
    fell = companions.heldout_fell(view)
    hard = bool(fell) or place < limits["empty_reward"].value
    return Fired(
        Finding(
            f"Completions shrank from {first:.0f} to {level.mean:.0f} tokens, the share cut at the budget from "
            f"{was_cut:.0%} to {cut.mean:.0%}, and the reward has not risen: the budget is too small for the task",
            Action.ADJUST if hard else Action.WATCH,
            Confidence.HIGH if fell else Confidence.MEDIUM,
            Onset(view.first_step, onset_of(view, "length_mean", -math.inf, SHRUNK * first).last),
            (
                Evidence(
                    "truncated_frac",
                    f"truncated_frac was {was_cut:.0%} over about the first {HEAD} steps and is {cut.mean:.1%} over "
                    f"the last {cut.n} logged ones, with completions {ratio:.2f} times as long (limit {limit})",
                    was_cut,
                    "of completions",
                    cut.steps,
                    limit,
                    ">=",
                    was_cut,
                ),
                Evidence(metric, f"{metric} is {fmt(reward.mean)} of {fmt(top)}", reward.mean, "reward", reward.steps),
                *fell,
            ),
            "aversion",
        )
    )


def _empty(
    view: View, limits: Mapping[str, Threshold], first: float, level: Level, metric: str, reward: Level
) -> Fired:
    """Fire for completions that are the stop token alone, and yet are paid."""
    limit = limits["empty"]
    return Fired(
        Finding(
            f"Completions are empty ({level.mean:.2f} tokens, the stop token alone) and earn {fmt(reward.mean)}: the "
            "reward pays for no answer",
            Action.STOP,
            Confidence.HIGH,
            onset_of(view, "length_mean", -math.inf, limits["watch_ratio"].value * first),
            (
                Evidence(
                    "length_mean",
                    f"length_mean is {level.mean:.2f} tokens over the last {level.n} logged steps, from {first:.0f} in "
                    f"the first {HEAD}; {view.trainer.name} counts the stop token (limit {limit})",
                    level.mean,
                    "tokens",
                    level.steps,
                    limit,
                    "<=",
                    first,
                ),
                Evidence(
                    metric,
                    f"{metric} is {fmt(reward.mean)} over the same steps",
                    reward.mean,
                    "reward",
                    reward.steps,
                    limits["empty_reward"],
                    ">=",
                ),
            ),
            "empty",
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
        Threshold("cut_at_first", 0.25, "of completions", SourceKind.MEASURED, "docs/measurements.md: Unseen TRL runs"),
        Threshold(
            "averse_ratio", 0.67, "times the start", SourceKind.MEASURED, "docs/measurements.md: Unseen TRL runs"
        ),
        Threshold("averse_steps", 60, "steps", SourceKind.CONVENTION, "a reward that is learned has begun to rise"),
        Threshold("empty", 1.05, "tokens", SourceKind.DEFINITION, "the stop token alone is one token"),
        Threshold(
            "empty_reward", 0.1, "of the reward's range", SourceKind.CONVENTION, "above the floor: emptiness is paid"
        ),
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
        ),
        "empty": Plan(
            remedies=(
                Remedy("Stop: the policy has stopped answering", "", ""),
                Remedy(
                    "Score an empty answer by hand: it must earn nothing; test equality, not containment",
                    "verifier",
                    "set",
                ),
                Remedy("Resume from a checkpoint before completions emptied, with the verifier repaired", "", ""),
            ),
            verify=(Verify("completions have text again", "length_mean", ">", 2.0, 30),),
            rollback=Rollback.BEFORE_ONSET,
        ),
    },
    leads_to=("E001", "R001", "R009", "R010", "R014", "S001", "K001", "H001", "H002"),
    patience=2,
    look_alikes=(
        LookAlike("a base model sheds text and scores better", "the reward is above half of its maximum"),
        LookAlike("a moderate shortening", "more than a quarter of the start is left"),
    ),
    sources=("docs/false-alarms.md: 22", "EasyR1#40", "VLM-R1#280"),
)
