"""R001: every rollout gets the same reward, step after step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

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
    Fold,
    LookAlike,
    Needs,
    NotApplicable,
    Onset,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.base_success import may_take_off
from rlvitals.checks.common import fmt, now, tied_share
from rlvitals.checks.leap_witness import LIMITS as WITNESS_LIMITS
from rlvitals.checks.leap_witness import NOBODY, witness_of
from rlvitals.checks.reward_leap import BEFORE, Leap, leap_to
from rlvitals.checks.scale import reward_scale
from rlvitals.view import Chunk, View

JUDGEABLE = 0.9  # share of completions that are cut from which a row says nothing of the verifier (convention)
ROUNDING = 1e-6  # of the reward: a mean of equal float32 numbers is off by less


@dataclass(frozen=True, slots=True)
class Streak:
    """The current run of identical step rewards, the longest one that ended before it, and the values just before.

    `whole` counts those of its rows that say that most completions came to their own end.
    """

    value: float = math.nan
    rows: int = 0
    since: int = -1
    longest: int = 0
    whole: int = 0
    before: tuple[float, ...] = ()  # at most BEFORE values, oldest first


def _step(state: Streak, chunk: Chunk) -> Streak:
    column = chunk.col("reward_mean")
    at = np.flatnonzero(np.isfinite(column))
    if at.size == 0:
        return state
    values, steps = column[at], chunk.steps[at]
    ended_well = chunk.col("truncated_frac")[at] < JUDGEABLE  # a row that does not say counts for nothing
    changed = np.concatenate([[values[0] != state.value], values[1:] != values[:-1]])
    cuts = np.flatnonzero(changed)
    if cuts.size == 0:
        return replace(state, rows=state.rows + int(at.size), whole=state.whole + int(ended_well.sum()))
    lengths = np.diff(np.append(cuts, at.size))
    ended = max(state.rows + int(cuts[0]), *(int(n) for n in lengths[:-1]), 0)
    earlier = (*state.before, *([state.value] * min(state.rows, BEFORE)), *values[: cuts[-1]].tolist())
    before = tuple(earlier[-BEFORE:])
    return Streak(
        float(values[-1]),
        int(lengths[-1]),
        int(steps[cuts[-1]]),
        max(state.longest, ended),
        int(ended_well[cuts[-1] :].sum()),
        before,
    )


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    state: Streak = view.state
    cut = _all_cut(view, limits)
    if cut:
        return NotApplicable(cut)
    whole = state.rows == view.count("reward_mean")
    window = min(state.rows, 50)
    ties = tied_share(view, window)
    tied = bool(ties.size) and bool((ties == 1.0).all())
    spread = now(view, "reward_std", window)
    if state.rows >= 2 and spread.n and spread.high > 0 and not tied:
        return Clear(f"step means repeat, but rewards differ within steps (standard deviation up to {spread.high:.3g})")
    if tied and whole:
        limit = limits["rows_tied_from_start"]
        needed = limit.value
    else:
        limit = limits["rows_tied"] if tied else limits["rows_unseen"]
        needed = max(limit.value, 3.0 * state.longest)
    if state.rows < needed:
        return Clear(
            f"the longest current streak of identical rewards is {state.rows} logged steps; limit {needed:.0f}"
        )
    leap, witness = None, NOBODY
    if _at_top(view, state.value, whole=whole):
        leap = leap_to(state.value, np.asarray(state.before))
        if leap is None or not tied or not _too_far(leap, limits):
            return Clear(f"the reward is constant at its maximum, {fmt(state.value)}: see R009 and R007")
        witness = witness_of(view, state.since, leap.away / reward_scale(view).span, limits)
        if witness.followed:
            return Clear(witness.followed)
    evidence = _same(view, state, limit, tied=tied)
    same = f"The reward is the same number, {fmt(state.value)}, for every rollout since step {state.since}"
    variant = "from the start" if whole else "later"
    early = not whole and leap is None and may_take_off(view)  # rare successes come in streaks of none
    if leap is not None:
        evidence += [_leapt(view, state, leap, limits), *witness.evidence]
        same += (
            f": from {fmt(leap.level)} to its maximum in one step is no learning, either the verifier pays everything "
            "or the tasks changed at that step"
        )
        variant = "leapt"
    return Fired(
        Finding(
            same,
            Action.WATCH if early else Action.FIX,
            Confidence.HIGH if tied and not early and (leap is None or witness.against) else Confidence.MEDIUM,
            Onset(state.since, state.since),
            tuple(evidence),
            variant,
        )
    )


def _all_cut(view: View, limits: Mapping[str, Threshold]) -> str:
    """Say that completions are cut, "" when they are not or when the reward was constant before they were."""
    state: Streak = view.state
    truncated = now(view, "truncated_frac", 20)
    enough = limits["rows_tied" if state.before else "rows_tied_from_start"].value
    if not truncated.n or truncated.mean < limits["judgeable_share"].value or state.whole >= enough:
        return ""
    return f"{truncated.mean:.0%} of completions are cut: the verifier cannot be judged before that"


def _same(view: View, state: Streak, limit: Threshold, *, tied: bool) -> list[Evidence]:
    steps = (state.since, view.step)
    text = (
        f"reward_mean is exactly {state.value:.6g} in all {state.rows} logged steps since step {state.since} "
        f"(longest earlier streak {state.longest}; limit {limit})"
    )
    out = [Evidence("reward_mean", text, float(state.rows), "logged steps", steps, limit, ">=")]
    if tied:
        text = "no group has any reward difference over those steps, so no step can teach anything"
        out.append(Evidence("zero_variance_frac", text, 1.0, "fraction", steps))
    return out


def _too_far(leap: Leap, limits: Mapping[str, Threshold]) -> bool:
    """True when what fell short until then was too much to be gone for good in one step."""
    far = leap.units >= limits["leap_units"].value and leap.lowest >= limits["leap_lowest"].value
    return far and leap.left >= limits["leap_left"].value and leap.trend >= limits["leap_trend"].value


def _leapt(view: View, state: Streak, leap: Leap, limits: Mapping[str, Threshold]) -> Evidence:
    limit = limits["leap_units"]
    text = (
        f"reward_mean was {fmt(leap.away)} away from it until the step before, {fmt(leap.units)} times what one "
        f"failure costs a step (limit {limit}), never nearer than {fmt(leap.lowest)} times (limit "
        f"{limits['leap_lowest']}), and {leap.left:.0%} of that distance was left in the last steps (limit "
        f"{limits['leap_left']}); a policy that learns fails less and less before it fails no more"
    )
    if np.isfinite(leap.trend):
        text += f"; the trend that led there would have taken {fmt(leap.trend)} steps (limit {limits['leap_trend']})"
    return Evidence(
        "reward_mean",
        text,
        leap.units,
        "pieces",
        (max(view.first_step, state.since - leap.rows), state.since),
        limit,
        ">=",
        leap.level,
    )


def _at_top(view: View, value: float, *, whole: bool) -> bool:
    success = now(view, "success_frac", 20)
    if success.n:
        return success.mean >= 0.98
    top = view.config.reward_max
    if top is not None:
        return value >= top
    if whole:
        return value == 1.0
    return value > 0 and value >= reward_scale(view).high * (1 - ROUNDING)


CHECK = Check(
    id="R001",
    name="constant-reward",
    family=Family.REWARD,
    fault="Every rollout of many steps gets exactly the same reward.",
    why="A constant reward is what a verifier that times out, raises or falls back to a default produces while the "
    "loop runs green. With no reward difference in any group the gradient of the reward is exactly zero.",
    needs=Needs(all_of=("reward_mean",), rows=5),
    thresholds=(
        Threshold(
            "rows_tied_from_start",
            6,
            "identical logged steps from the first on, all groups tied",
            SourceKind.DEFINITION,
            "no group has a difference, so no step has a reward gradient",
        ),
        Threshold(
            "rows_tied",
            10,
            "identical logged steps, all groups tied",
            SourceKind.DEFINITION,
            "no group has a difference, so no step has a reward gradient",
        ),
        Threshold(
            "judgeable_share",
            JUDGEABLE,
            "of completions",
            SourceKind.CONVENTION,
            "a cut answer says nothing of the verifier",
        ),
        Threshold(
            "rows_unseen",
            20,
            "identical logged steps, spread not logged",
            SourceKind.MEASURED,
            "docs/measurements.md: identical streaks",
        ),
        Threshold(
            "leap_units",
            6,
            "pieces away on average, just before",
            SourceKind.MEASURED,
            "docs/measurements.md: Leap to the maximum",
        ),
        Threshold(
            "leap_lowest",
            2,
            "pieces away at the nearest, just before",
            SourceKind.MEASURED,
            "docs/measurements.md: Leap to the maximum",
        ),
        Threshold(
            "leap_left",
            0.5,
            "of that distance in the last steps",
            SourceKind.MEASURED,
            "docs/measurements.md: Leap to the maximum",
        ),
        Threshold(
            "leap_trend",
            6,
            "steps of a clear trend before it",
            SourceKind.MEASURED,
            "docs/measurements.md: Leap to the maximum",
        ),
        *WITNESS_LIMITS,
    ),
    judge=judge,
    fold=Fold(Streak(), _step, needs=("reward_mean",)),
    plans={
        "": Plan(
            remedies=(
                Remedy("Stop, and look at the raw verifier output of 20 rollouts", "verifier", "check"),
                Remedy(
                    "Count verifier exceptions, time-outs and None by type; make them errors, not scores",
                    "verifier",
                    "set",
                ),
                Remedy("Compare the parser with what the model writes now", "parser", "check"),
            ),
            verify=(Verify("rewards differ within groups over the next 20 steps", "zero_variance_frac", "<", 0.5, 20),),
            rollback=Rollback.BEFORE_ONSET,
        ),
        "from the start": Plan(
            remedies=(
                Remedy("Score gold answers in the worker process: they must get full marks", "verifier", "check"),
                Remedy(
                    "Count verifier exceptions, time-outs and None by type; make them errors, not scores",
                    "verifier",
                    "set",
                ),
                Remedy(
                    "If the verifier is right, the tasks are out of reach: start on an easier tier",
                    "curriculum",
                    "lower",
                ),
            ),
            verify=(Verify("rewards differ within groups over the next 20 steps", "zero_variance_frac", "<", 0.5, 20),),
        ),
        "leapt": Plan(
            remedies=(
                Remedy("Stop, and look at the raw verifier output of 20 rollouts", "verifier", "check"),
                Remedy("Score wrong and empty answers: they must get nothing", "verifier", "check"),
                Remedy(
                    "Count verifier exceptions, time-outs and None by type; make them errors, not scores",
                    "verifier",
                    "set",
                ),
                Remedy(
                    "If the tasks were changed at that step, planned or not, mix harder ones in: these teach nothing",
                    "curriculum",
                    "raise",
                ),
            ),
            verify=(Verify("rewards differ within groups over the next 20 steps", "zero_variance_frac", "<", 0.5, 20),),
            rollback=Rollback.BEFORE_ONSET,
        ),
    },
    leads_to=(
        "R002",
        "R009",
        "R010",
        "R012",
        "R014",
        "S001",
        "S005",
        "U007",
        "U008",
        "K002",
        "T002",
        "H001",
        "H002",
        "H003",
    ),
    look_alikes=(
        LookAlike(
            "constant at the maximum: solved", "the failures became fewer and fewer before they were none (R009)"
        ),
        LookAlike(
            "a planned switch of the curriculum to tasks that are all solved",
            "the schedule says so, and wrong answers still get nothing: the finding names both",
        ),
        LookAlike("values carried forward between log rows", "earlier streaks were as long"),
        LookAlike("the mean repeats while rewards differ", "reward_std is above 0"),
    ),
    sources=("Why GRPO training fails: reward extraction", "docs/measurements.md: Identical streaks", "marin#8936"),
)
