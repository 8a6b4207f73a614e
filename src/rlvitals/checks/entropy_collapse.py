"""E001: entropy falls to a small share of the run's own start, or is on its way there within a few dozen rows."""

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
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import companions, course, mastery
from rlvitals.checks.common import fmt, shift
from rlvitals.checks.scale import reward_scale
from rlvitals.view import View

LOWEST_START = 0.004  # nats/token: a start below this has nothing to lose (convention)
SMALL_START_SHARE = 0.25  # of the start: cap of the absolute floor, so that a low start alone never meets it
NO_GAIN = 0.1  # of the reward's range: a smaller upper bound of the gain is no gain
ENOUGH_ROWS = 60  # rows before "no gain" is said


def floor_of(start: float, limits: Mapping[str, Threshold]) -> float:
    """Return the entropy that counts as collapsed for this start, nats/token."""
    absolute = min(limits["floor_nats"].value, SMALL_START_SHARE * start)
    return max(limits["floor_share"].value * start, absolute)


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    level = course.level(view, "entropy")
    if level.start < LOWEST_START:
        return NotApplicable(f"entropy started at {fmt(level.start)} nats/token: there was nothing to lose")
    floor = floor_of(level.start, limits)
    reached = level.now < floor
    ahead = None if reached else _forecast(view, floor, limits)
    if not reached and (ahead is None or ahead.rows >= limits["horizon_rows"].value):
        course_text = "and is not on a steady fall to it" if ahead is None else f"about {ahead.rows:.0f} rows away"
        return Clear(
            f"entropy is {fmt(level.now)} nats/token over steps {level.first}-{level.last}, {fmt(level.ratio)} of its "
            f"start {fmt(level.start)}; the floor is {fmt(floor)}, {course_text}"
        )
    first = _reached(level, floor, limits) if ahead is None else _ahead(view, level, floor, ahead, limits)
    return Fired(_finding(view, level, floor, reached, first))


def _forecast(view: View, floor: float, limits: Mapping[str, Threshold]) -> course.Forecast | None:
    return course.forecast(view, "entropy", floor, limits["forecast_z"].value, limits["horizon_rows"].value)


def _reached(level: course.Level, floor: float, limits: Mapping[str, Threshold]) -> Evidence:
    limit = limits["floor_share"] if floor <= limits["floor_share"].value * level.start else limits["floor_nats"]
    return Evidence(
        "entropy",
        f"entropy fell from {fmt(level.start)} nats/token at the start to {fmt(level.now)} over steps "
        f"{level.first}-{level.last}; the floor is {fmt(floor)}: {limit}",
        level.now,
        "nats/token",
        level.steps,
        limit,
        "<",
        level.start,
    )


def _ahead(
    view: View, level: course.Level, floor: float, ahead: course.Forecast, limits: Mapping[str, Threshold]
) -> Evidence:
    steps = ahead.rows * course.row_spacing(view, "entropy")
    return Evidence(
        "entropy",
        f"entropy fell from {fmt(level.start)} nats/token at the start to {fmt(level.now)} and loses "
        f"{fmt(100 * (1 - math.exp(ahead.slope)))}% per logged row over the last {ahead.window}; at "
        f"the slowest fall the "
        f"data allow it meets the floor {fmt(floor)} in {steps:.0f} steps; limit {limits['horizon_rows']}",
        ahead.rows,
        "rows",
        level.steps,
        limits["horizon_rows"],
        "<",
        level.start,
    )


def _finding(view: View, level: course.Level, floor: float, reached: bool, first: Evidence) -> Finding:
    onset = course.entered(view, "entropy", level.start, floor) if reached else course.onset(view, "entropy")
    worse = companions.worse(view)
    where = "has collapsed" if reached else "is collapsing"
    fell = f"entropy {where}: {fmt(level.start)} to {fmt(level.now)} nats/token since {onset}"
    if worse:
        confidence = Confidence.HIGH if reached else Confidence.MEDIUM
        return Finding(f"{fell}, and the policy got worse", Action.ADJUST, confidence, onset, (first, *worse), "worse")
    stuck = _no_gain(view) if reached else None
    if stuck is not None:
        text = f"{fell}, without any gain in reward"
        return Finding(text, Action.ADJUST, Confidence.HIGH, onset, (first, stuck), "no gain")
    solved = mastery.confirmed(view)
    if solved is not None:
        text = f"{fell}, as the policy is sure of a task that it masters"
        return Finding(text, Action.NOTE, Confidence.HIGH, onset, (first, solved), "solved")
    if companions.reward_place(view) >= 0.9:
        text = f"{fell}, while the reward is near its maximum: the policy is sure of a task it solves, or exploits"
        return Finding(text, Action.WATCH, Confidence.MEDIUM, onset, (first,), "solved")
    text = f"{fell}; {companions.reward_words(view)}"
    return Finding(text, Action.WATCH, Confidence.MEDIUM, onset, (first,))


def _no_gain(view: View) -> Evidence | None:
    """Return the evidence that the reward has gained nothing in the whole run; None when it may have."""
    moved, scale = shift(view, "reward_mean", z=2.6), reward_scale(view)
    limit = NO_GAIN * scale.span
    high_up = companions.reward_place(view) >= 0.5 or (not scale.known and moved.late > 0.5 * scale.high)
    if moved.rows < ENOUGH_ROWS or not scale.span > 0 or not moved.high < limit or high_up:
        return None
    return Evidence(
        "reward_mean",
        f"reward went from {fmt(moved.early)} (first third) to {fmt(moved.late)} (last third); the gain is at most "
        f"{fmt(moved.high)}, a tenth of the range would be {fmt(limit)}",
        moved.high,
        "reward",
        moved.steps,
    )


CHECK = Check(
    id="E001",
    name="entropy-collapse",
    family=Family.ENTROPY,
    fault="The policy is becoming deterministic: its entropy falls to a small share of where this run started.",
    why="Groups sampled from a near-deterministic policy are near-identical, so advantages vanish and nothing new is "
    "tried. The start level differs by model (0.1 to 3 nats/token), so only the fall against the run's own start "
    "counts; a fixed limit of 0.5 accuses two thirds of healthy runs. A gradual decline that settles, or certainty "
    "about a task that is solved, is normal.",
    needs=Needs(all_of=("entropy",), rows=30),
    thresholds=(
        Threshold(
            "floor_share",
            0.1,
            "of the run's own start",
            SourceKind.MEASURED,
            "docs/measurements.md: Entropy collapse forecast",
        ),
        Threshold(
            "floor_nats", 0.02, "nats/token", SourceKind.MEASURED, "docs/measurements.md: Entropy collapse forecast"
        ),
        Threshold(
            "horizon_rows", 60, "logged rows", SourceKind.MEASURED, "docs/measurements.md: Entropy collapse forecast"
        ),
        Threshold(
            "forecast_z",
            2.6,
            "one-sided normal quantile",
            SourceKind.MEASURED,
            "docs/measurements.md: Entropy collapse forecast",
        ),
        companions.REWARD_DROP_Z,
        companions.REWARD_DROP_SHARE,
        companions.HELDOUT_DROP_Z,
    ),
    judge=judge,
    patience=2,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Raise the upper clip bound, so that unlikely tokens may gain (clip-higher)", "clip_high", "raise"
                ),
                Remedy("Lower the learning rate or make fewer updates per rollout batch", "learning_rate", "lower"),
                Remedy(
                    "Raise the KL coefficient only when reward, groups and rollouts are cleared", "kl_coef", "raise"
                ),
            ),
            verify=(Verify("entropy stops falling over the next 40 steps", "entropy", "not falling", None, 40),),
            rollback=Rollback.CURRENT,
        ),
        "solved": Plan(
            remedies=(
                Remedy("Stop, or raise the difficulty: there is little left to learn here", "curriculum", "raise"),
            ),
            verify=(Verify("the held-out score does not fall", "held-out", "not falling", None, 40),),
        ),
    },
    leads_to=("O002", "S001", "R002", "R010", "R014", "H002", "K002", "L003"),
    look_alikes=(
        LookAlike("Entropy below 0.5 in an instruct or coder model", "it is near this run's own start level"),
        LookAlike("Entropy declines and settles", "the second half of the window falls less than half as fast"),
        LookAlike("Entropy of a few percent because the task is solved", "held-out rose with a high reward: a note"),
    ),
    sources=(
        "GRPO health-check runbook: entropy level and trend",
        "docs/measurements.md: Entropy collapse forecast",
        "arXiv 2505.22617",
        "arXiv 2505.22312",
    ),
)
