"""L001: many completions are cut at the token budget."""

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
    NoData,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import Cut, cut, fmt, onset_of, relative_z, shift, start
from rlvitals.checks.cut_standing import Standing, pressed, stands
from rlvitals.view import View

ACT_ROWS = 20  # fewer rows show neither a falling share nor a rising reward (convention)
FLAT_ROWS = 150  # logged rewards after which a slope of 0.001 per step shows at the usual batch noise (0.1 per step)
STRICT_Z = 2.6  # normal quantile of a two-sided 0.01
NEARLY_ALL = 0.9  # of completions cut: then right ones were cut as well, and their length says nothing (convention)


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    got = cut(view)
    if got is None:
        return NoData(("truncated_frac", "token_budget"), "neither the truncated share nor the token budget is known")
    watch, act = limits["watch_share"], limits["majority"]
    if got.mismatched:
        return Clear("completions are reported as cut, but their lengths stay well below the budget: see L005")
    if got.share < watch.value:
        known = (
            f"{got.share:.1%} of completions are cut"
            if got.metric == "truncated_frac"
            else "the mean length is below 90% of the budget"
        )
        return Clear(f"{known} over the last {got.n} logged steps; limit {watch.value:.0%}")
    moved, reward = shift(view, got.metric, z=STRICT_Z), shift(view, "reward_mean", z=STRICT_Z)
    falling, learning = relative_z(moved) < -STRICT_Z, reward.best_low > 0
    limit = act if got.share >= act.value else limits["unstable"] if got.share >= limits["unstable"].value else watch
    rows = ACT_ROWS if limit is act else FLAT_ROWS
    most = limit is not watch and not falling and not learning and view.count("reward_mean") >= rows
    if got.metric != "truncated_frac" and limit is not act:
        most = False
    if not most and got.metric == "truncated_frac":
        lost = _pressed(view, got, limits) or _stands(view, got, limits)
        if lost is not None:
            return Fired(lost)
    return Fired(
        Finding(
            _summary(got),
            Action.ADJUST if most else Action.WATCH,
            Confidence.HIGH if most and limit is act and got.metric == "truncated_frac" else Confidence.MEDIUM,
            onset_of(view, got.metric, _edge(got, watch), math.inf),
            (
                _share_evidence(view, got, limit, falling=falling, learning=learning),
                *_flat_reward(view, learning=learning),
            ),
        )
    )


def _share_evidence(view: View, got: Cut, limit: Threshold, *, falling: bool, learning: bool) -> Evidence:
    text = _text(view, got, limit, falling=falling, learning=learning)
    return Evidence(got.metric, text, got.share, "fraction", got.steps, limit, ">=", start(view, got.metric))


def _pressed(view: View, got: Cut, limits: Mapping[str, Threshold]) -> Finding | None:
    """Right answers are as long as the budget lets them be, and many completions are cut: the longer ones are lost."""
    found, limit, unstable = pressed(view), limits["right_length"], limits["unstable"]
    if found is None or not unstable.value <= got.share < NEARLY_ALL or found.place >= limits["fails"].value:
        return None
    if found.share < limit.value:
        return None
    text = (
        f"right answers average {fmt(found.length)} tokens, {found.share:.0%} of the budget, over steps "
        f"{found.steps[0]}-{found.steps[1]} (limit {limit})"
    )
    return Finding(
        f"Right answers do not fit into the budget: those that do fill {found.share:.0%} of it, and "
        f"{got.share:.0%} of completions are cut",
        Action.ADJUST,
        Confidence.HIGH,
        onset_of(view, got.metric, unstable.value, math.inf),
        (
            _share_evidence(view, got, unstable, falling=False, learning=False),
            Evidence("length_right_mean", text, found.share, "of the budget", found.steps, limit, ">="),
        ),
    )


def _stands(view: View, got: Cut, limits: Mapping[str, Threshold]) -> Finding | None:
    """Many were cut from the first steps on, and the reward stands still low in its range."""
    found, quarter = stands(view), limits["cut_quarter"]
    if found is None or not found.at_first >= quarter.value:
        return None
    if found.share >= quarter.value and not found.rising and found.slope < limits["slope"].value:
        still, low = limits["gain_share"], limits["fails"]
        what = f"{found.share:.0%} of completions are cut, as from the first steps on, and the reward stands still"
    elif found.share >= limits["watch_share"].value:
        still, low = limits["floor_gain"], limits["near_floor"]
        what = (
            f"Completions learned to end within the budget ({found.at_first:.0%} were cut, {found.share:.0%} are), "
            "not to be right: the reward stays near its floor"
        )
    else:
        return None
    if not (found.gain < still.value and found.place < low.value):
        return None
    text = (
        f"truncated_frac was {found.at_first:.2f} in the first logged steps (limit {quarter}), and {found.share:.2f} "
        f"over steps {found.steps[0]}-{found.steps[1]}"
    )
    cut_short = Evidence("truncated_frac", text, found.at_first, "fraction", found.steps, quarter, ">=")
    return Finding(
        f"{what} at {fmt(found.late)}",
        Action.ADJUST,
        Confidence.MEDIUM,
        onset_of(view, got.metric, limits["watch_share"].value, math.inf),
        (cut_short, *_stand_evidence(found, still, low)),
    )


def _stand_evidence(found: Standing, still: Threshold, low: Threshold) -> tuple[Evidence, ...]:
    moved = (
        f"reward_mean went from {fmt(found.early)} to {fmt(found.late)} over steps {found.steps[0]}-{found.steps[1]}: "
        f"a gain of at most {max(found.gain, 0):.0%} of the headroom (limit {still}), {fmt(max(found.slope, 0))} of "
        "the range per step"
    )
    stood = f"the reward is at {found.place:.0%} of its range (limit {low})"
    return (
        Evidence("reward_mean", moved, found.gain, "of the headroom", found.steps, still, "<", found.early),
        Evidence("reward_mean", stood, found.place, "of the range", found.steps, low, "<"),
    )


def _edge(got: Cut, limit: Threshold) -> float:
    return limit.value if got.metric == "truncated_frac" else 0.9 * (got.budget or 0.0)


def _summary(got: Cut) -> str:
    if got.metric == "truncated_frac":
        return f"{got.share:.0%} of completions are cut at the token budget; what they would have answered is lost"
    return f"Completions average {got.share:.0%} of the token budget: most of them are cut or nearly so"


def _text(view: View, got: Cut, limit: Threshold, *, falling: bool, learning: bool) -> str:
    budget = f" of a budget of {got.budget:.0f} tokens" if got.budget else ""
    state = "; falling" if falling else ""
    state += "; the reward is rising all the same" if learning else ""
    if got.metric == "truncated_frac":
        return (
            f"truncated_frac is {got.share:.2f} over the last {got.n} logged steps, from "
            f"{fmt(start(view, got.metric))} at "
            f"the start{budget}{state} (limit {limit})"
        )
    return (
        f"length_mean is {got.share:.0%}{budget} over the last {got.n} logged steps{state} (limit {limit}; the "
        f"truncated "
        "share itself is not logged)"
    )


def _flat_reward(view: View, *, learning: bool) -> tuple[Evidence, ...]:
    reward = shift(view, "reward_mean", z=STRICT_Z)
    if learning or not math.isfinite(reward.difference):
        return ()
    return (
        Evidence(
            "reward_mean",
            f"reward_mean has not risen: {fmt(reward.early)} in the first third, {fmt(reward.late)} in the last",
            reward.late,
            "reward",
            reward.steps,
            before=reward.early,
        ),
    )


_BUDGET = "docs/measurements.md: Token budget"
CHECK = Check(
    id="L001",
    name="truncation-high",
    family=Family.LENGTH,
    fault="Many completions are cut at the token budget.",
    why="A cut completion collects whatever the cut state earns, usually failure, so the policy learns length aversion "
    "instead of the task. Long runs were stable below 5% and unstable at 10-15%.",
    needs=Needs(any_of=("truncated_frac", "length_mean"), rows=10),
    thresholds=(
        Threshold("watch_share", 0.1, "of completions", SourceKind.PAPER, "verl documentation; ScaleRL 2510.13786"),
        Threshold("unstable", 0.15, "of completions", SourceKind.PAPER, "ScaleRL 2510.13786: 10-15% destabilised runs"),
        Threshold(
            "majority",
            0.5,
            "of completions",
            SourceKind.DEFINITION,
            "when most completions are cut, the cut decides most rewards",
        ),
        Threshold("right_length", 0.9, "of the budget", SourceKind.MEASURED, _BUDGET),
        Threshold("cut_quarter", 0.25, "of completions", SourceKind.MEASURED, _BUDGET),
        Threshold("gain_share", 0.2, "of the headroom", SourceKind.MEASURED, _BUDGET),
        Threshold("slope", 0.001, "of the range per step", SourceKind.MEASURED, _BUDGET),
        Threshold("floor_gain", 0.1, "of the headroom", SourceKind.MEASURED, _BUDGET),
        Threshold("fails", 0.5, "of the reward's range", SourceKind.DEFINITION, "more is lost than is earned"),
        Threshold("near_floor", 0.15, "of the reward's range", SourceKind.MEASURED, _BUDGET),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Check which of the model's stop tokens the sampler knows", "", "check"),
                Remedy("Raise the token budget until less than 5% are cut", "token_budget", "raise"),
                Remedy("If they loop instead of reasoning, read rollouts and shorten the task", "", "check"),
                Remedy("Leave cut completions out of the loss only once few are cut", "", "check"),
            ),
            verify=(Verify("less than 10% of completions are cut", "truncated_frac", "<", 0.1, 30),),
        )
    },
    leads_to=(
        "T001",
        "R001",
        "R004",
        "R010",
        "R013",
        "S001",
        "R002",
        "R014",
        "L003",
        "U009",
    ),
    patience=2,
    look_alikes=(
        LookAlike("the model ends with a token that the trainer does not count", "lengths stay below the budget: L005"),
        LookAlike("a share that is falling while the reward rises", "both trends; watch at most"),
        LookAlike(
            "a long tail of loops that are cut while the rest is learned", "the reward rises, or is past its half"
        ),
    ),
    sources=(
        "Why GRPO training fails: sequence length and truncation",
        "docs/evidence.md: Healthy bands and their sources",
    ),
)
