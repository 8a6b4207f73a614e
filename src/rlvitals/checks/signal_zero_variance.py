"""S001: most groups have no reward differences, so most of the batch teaches nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

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
    NoData,
    Onset,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import mastery
from rlvitals.checks.base_success import may_take_off
from rlvitals.checks.common import RECENT, fmt
from rlvitals.checks.signal_common import Standing, Tied, level_onset, span, standing, tied_groups
from rlvitals.schema import Float64
from rlvitals.view import View

MIN_ROWS = 20
LONGER = 100  # rows over which a share must last before it asks for a move
MIN_ALL_TIED = 5  # rows that say something by themselves when every group in every one of them is tied
ALL_TIED = 0.999  # a printed share of 1.000
NEARLY_ALL = 0.95  # of the groups, in every one of the last MIN_ROWS rows
ENOUGH_GROUPS = 64  # tied groups after which even a pass rate of 0.01 would have shown a mixed one (G = 8: 99.4%)
MIN_ONE_GROUP = 32  # groups to aggregate before a share means anything (docs/evidence.md: Finite-group law)
Z = 2.3
Z_STRICT = 3.5  # for what asks for a move: about 1 in 5,000 at a true share of two thirds, one group per step
METRICS = ("zero_variance_frac", "all_wrong_frac", "advantage_std", "reward_std", "advantage_max")


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    tied = tied_groups(view)
    needed = _needed(view)
    if tied is None or tied.size < MIN_ALL_TIED:
        there = tuple(m for m in METRICS if view.has(m))
        return NoData(there or METRICS, f"{needed} values of one are needed")
    if tied.size < needed and not np.all(tied.values >= ALL_TIED):
        return NoData(tied.metrics, f"{tied.size} values; {needed} are needed")
    share, low = _share(tied.values, Z)
    half, law = limits["tied_share"], _law(view)
    at_least = "" if tied.exact else "at least "
    shown = (
        f"{at_least}{share:.0%} of the groups had no reward differences over steps {span(tied.steps)[0]}-"
        f"{span(tied.steps)[1]} (from {tied.source}){law}"
    )
    if low <= half.value:
        return Clear(f"{shown}; limit {half}")
    return Fired(_finding(view, tied, (share, low), shown, limits))


def _finding(
    view: View, tied: Tied, found: tuple[float, float], shown: str, limits: Mapping[str, Threshold]
) -> Finding:
    (share, low), most, stand = found, limits["tied_most"], standing(view)
    variant = _variant(view, stand)
    onset = level_onset(tied.trace, view.first_seen(METRICS[0] if tied.source == METRICS[0] else "reward_mean"))
    limit = most if share >= most.value else limits["tied_share"]
    text = f"{shown}; lower bound {low:.0%}; limit {limit}"
    first = Evidence(tied.source, text, share, "share of groups", span(tied.steps), limit, ">", _early(tied))
    what = f"{'' if tied.exact else 'at least '}{share:.0%} of the groups give no learning signal"
    what += (f", {variant}" if variant else "") + _useful(view, share)
    if share >= most.value and _lasts(view, onset, limits) and _stuck(view, tied, share, stand, variant, limits):
        evidence = (first, _not_rising(view, stand, limits))
        return Finding(what, Action.ADJUST, Confidence.HIGH, onset, evidence, variant)
    solved = mastery.confirmed(view) if variant == "all right" and share < most.value else None
    if solved is not None:
        what += ", as the task is mastered"
        return Finding(what, Action.NOTE, Confidence.HIGH, onset, (first, solved), variant)
    return Finding(what, Action.WATCH, Confidence.MEDIUM, onset, (first,), variant)


def _stuck(
    view: View, tied: Tied, share: float, stand: Standing, variant: str, limits: Mapping[str, Threshold]
) -> bool:
    """True when nothing says that the tied groups are on their way to be mixed, or solved."""
    enough = tied.size >= _needed(view) or tied.size * (view.config.prompts_per_step or 1) >= ENOUGH_GROUPS
    learns = stand.rising or (share < limits["tied_nearly_all"].value and stand.slope_z > limits["hint_z"].value)
    if variant == "all right" or stand.solved or learns or not enough:
        return False
    return not (variant == "all wrong" and may_take_off(view))


def _needed(view: View) -> int:
    return MIN_ONE_GROUP if view.config.prompts_per_step == 1 else MIN_ROWS


def _lasts(view: View, onset: Onset, limits: Mapping[str, Threshold]) -> bool:
    """True when the share stays high beyond chance since its onset, over at most LONGER rows and at least RECENT.

    One group per step makes every row 0 or 1; two thirds of tied steps are then common in runs that learn.
    """
    longer = tied_groups(view, LONGER)
    if longer is None:
        return False
    since = min(int(np.searchsorted(longer.steps, onset.first)), max(longer.size - RECENT, 0))
    share, low = _share(longer.values[since:], Z_STRICT)
    return share >= limits["tied_most"].value and low >= limits["tied_lower"].value


def _share(values: Float64, z: float) -> tuple[float, float]:
    """Return the mean share of tied groups and its lower bound under autocorrelated noise.

    Twenty rows in a row with nearly all groups tied need no bound: on the way there the ramp would count as noise. One
    group per step (only 0 and 1) has such rows by chance.
    """
    found = stats.moments(values)
    share, low = found.mean, found.mean - z * math.sqrt(found.error2)
    tail = values[-MIN_ROWS:]
    many_groups = bool(np.any((values > 0) & (values < 1)))
    if many_groups and tail.size == MIN_ROWS and float(tail.min()) >= NEARLY_ALL:
        return max(share, float(tail.mean())), max(low, float(tail.min()))
    return share, low


def _law(view: View) -> str:
    """Return what the finite-group law expects at the observed pass rate, as a clause; "" when that is unknown."""
    group = view.config.group_size
    if group is None or not view.has("success_frac", 5):
        return ""
    rate = float(view.recent("success_frac")[1][-RECENT:].mean())
    expected = shares.zero_variance_law(rate, group)
    return f"; groups of {group} at a pass rate of {rate:.2f} tie in {expected:.0%} of cases or more"


def _variant(view: View, stand: Standing) -> str:
    """Say whether the tied groups are all wrong or all right, from their shares or else from the reward's place."""
    if view.has("all_wrong_frac", 5) and view.has("all_right_frac", 5):
        wrong, right = (float(view.recent(m)[1][-RECENT:].mean()) for m in ("all_wrong_frac", "all_right_frac"))
        return "all wrong" if wrong > 2 * right else "all right" if right > 2 * wrong else ""
    if stand.where == "top" and (stand.known or stand.gained):
        return "all right"
    if stand.where == "floor" and (stand.known or _at_floor(view)):
        return "all wrong"
    return ""


def _at_floor(view: View) -> bool:
    """True when the recent reward is most of the time exactly the lowest that this run has seen."""
    values = view.recent("reward_mean")[1][-RECENT:]
    return bool(values.size and np.mean(values == view.extremes("reward_mean")[0]) > 0.5)


def _not_rising(view: View, stand: Standing, limits: Mapping[str, Threshold]) -> Evidence:
    steps, values = view.recent("reward_mean")
    steps, values = steps[values.size // 2 :], values[values.size // 2 :]
    slope = stats.trend(steps.astype(float), values, z=Z)
    z = slope.z if math.isfinite(slope.z) else 0.0
    return Evidence(
        metric="reward_mean",
        text=f"the reward does not rise: {fmt(stand.start)} at the start, {fmt(stand.level)} now, trend z {z:.1f} over "
        f"the last half; limit {limits['trend_z']}",
        observed=z,
        unit="z",
        steps=span(steps),
        threshold=limits["trend_z"],
        comparison="<",
        before=stand.start,
    )


def _early(tied: Tied) -> float | None:
    return float(tied.trace.value[: max(tied.trace.size // 5, 1)].mean()) if tied.trace.size else None


def _useful(view: View, share: float) -> str:
    prompts = view.config.prompts_per_step
    return f"; {prompts * (1 - share):.1f} of {prompts} groups a step are useful" if prompts else ""


VERIFY = (Verify("the share of tied groups is below 0.5", "zero_variance_frac", "<", 0.5, 50),)
CURRICULUM = "curriculum"

CHECK = Check(
    id="S001",
    name="zero-variance-groups",
    family=Family.SIGNAL,
    fault="Most groups have no reward differences, so most of the batch teaches nothing.",
    why="The advantage is the reward's distance from its group's mean; in a tied group it is 0 for every rollout. "
    "A run at "
    "90% tied groups trains on a tenth of its data. The causes are tasks too hard, tasks too easy, or sampling so "
    "narrow "
    "that the rollouts of a group are the same. Half of the groups tied is common and still learns.",
    needs=Needs(any_of=METRICS, rows=MIN_ALL_TIED),
    thresholds=(
        Threshold(
            "tied_share",
            0.5,
            "share of groups",
            SourceKind.CONVENTION,
            "Why GRPO training fails: a healthy run keeps it well below half",
        ),
        Threshold("tied_most", 0.9, "share of groups", SourceKind.MEASURED, "docs/measurements.md: Tied groups"),
        Threshold("tied_lower", 0.75, "share of groups", SourceKind.MEASURED, "docs/measurements.md: Tied groups"),
        Threshold("tied_nearly_all", 0.95, "share of groups", SourceKind.MEASURED, "docs/measurements.md: Tied groups"),
        Threshold("hint_z", 1.0, "z", SourceKind.CONVENTION, "a hint of a rise holds the move back below that share"),
        Threshold("trend_z", Z, "z", SourceKind.MEASURED, "docs/measurements.md: Trend tests under AR(1) noise"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Train on tasks that the policy solves sometimes: pass rates of 0.1 to 0.9", CURRICULUM, "set"),
                Remedy(
                    "Rebalance the mixture towards prompts whose groups are mixed, or drop tied groups",
                    "mixture",
                    "set",
                ),
                Remedy("Sample more diversely", "temperature", "raise"),
            ),
            verify=VERIFY,
        ),
        "all wrong": Plan(
            remedies=(
                Remedy("Start from an easier tier, or warm up with supervised examples", CURRICULUM, "lower"),
                Remedy("Mix in easier prompts until some groups are mixed", "mixture", "set"),
                Remedy("Sample more diversely, or more rollouts per prompt", "temperature", "raise"),
            ),
            verify=VERIFY,
        ),
        "all right": Plan(
            remedies=(
                Remedy("Move on to harder tasks, or stop: what is left to learn here is little", CURRICULUM, "raise"),
                Remedy("Mix in harder prompts and drop those that are always solved", "mixture", "set"),
                Remedy("Sample more diversely", "temperature", "raise"),
            ),
            verify=VERIFY,
        ),
    },
    leads_to=("S005", "U008", "R010", "K002", "U007"),
    look_alikes=(
        LookAlike("One group per step: std 0 in many steps", "the share over at least 32 groups"),
        LookAlike(
            "The task is nearly solved, most groups are all right", "the reward is at its top, or held-out rose with it"
        ),
        LookAlike("Small groups at an extreme pass rate", "the finite-group law p^G + (1-p)^G"),
        LookAlike("A hard task before it takes off", "the reward rises, or it was solved now and then within 60 steps"),
    ),
    patience=2,
    sources=(
        "Why GRPO training fails: group reward variance",
        "RL-ZVP 2509.21880",
        "docs/evidence.md: Finite-group law",
        "docs/false-alarms.md: 14",
        "docs/false-alarms.md: 15",
        "docs/false-alarms.md: 16",
    ),
)
