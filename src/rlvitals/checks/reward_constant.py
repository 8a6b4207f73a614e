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
from rlvitals.checks.common import fmt, now, reward_scale, tied_share
from rlvitals.view import Chunk, View

ROUNDING = 1e-6  # of the reward: a mean of equal float32 numbers is off by less


@dataclass(frozen=True, slots=True)
class Streak:
    """The current run of identical step rewards, and the longest one that ended before it."""

    value: float = math.nan
    rows: int = 0
    since: int = -1
    longest: int = 0


def _step(state: Streak, chunk: Chunk) -> Streak:
    column = chunk.col("reward_mean")
    at = np.flatnonzero(np.isfinite(column))
    if at.size == 0:
        return state
    values, steps = column[at], chunk.steps[at]
    changed = np.concatenate([[values[0] != state.value], values[1:] != values[:-1]])
    cuts = np.flatnonzero(changed)
    if cuts.size == 0:
        return replace(state, rows=state.rows + int(at.size))
    lengths = np.diff(np.append(cuts, at.size))
    ended = max(state.rows + int(cuts[0]), *(int(n) for n in lengths[:-1]), 0)
    return Streak(float(values[-1]), int(lengths[-1]), int(steps[cuts[-1]]), max(state.longest, ended))


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    state: Streak = view.state
    truncated = now(view, "truncated_frac", 20)
    if truncated.n and truncated.mean >= limits["judgeable_share"].value:
        return NotApplicable(f"{truncated.mean:.0%} of completions are cut: the verifier cannot be judged before that")
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
    if _at_top(view, state.value, whole=whole):
        return Clear(f"the reward is constant at its maximum, {fmt(state.value)}: see R009 and R007")
    evidence = [
        Evidence(
            "reward_mean",
            f"reward_mean is exactly {state.value:.6g} in all {state.rows} logged steps since step {state.since} "
            f"(longest earlier streak {state.longest}; limit {limit})",
            float(state.rows),
            "logged steps",
            (state.since, view.step),
            limit,
            ">=",
        )
    ]
    if tied:
        evidence.append(
            Evidence(
                "zero_variance_frac",
                "no group has any reward difference over those steps, so no step can teach anything",
                1.0,
                "fraction",
                (state.since, view.step),
            )
        )
    return Fired(
        Finding(
            f"The reward is the same number, {fmt(state.value)}, for every rollout since step {state.since}",
            Action.FIX,
            Confidence.HIGH if tied else Confidence.MEDIUM,
            Onset(state.since, state.since),
            tuple(evidence),
            "from the start" if whole else "later",
        )
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
            0.9,
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
    },
    leads_to=(
        "R002",
        "R010",
        "R012",
        "R014",
        "S001",
        "S005",
        "U007",
        "U008",
        "K002",
    ),
    look_alikes=(
        LookAlike("constant at the maximum: solved", "the value is the top of the range (R009, R007)"),
        LookAlike("values carried forward between log rows", "earlier streaks were as long"),
        LookAlike("the mean repeats while rewards differ", "reward_std is above 0"),
    ),
    sources=("Why GRPO training fails: reward extraction", "docs/measurements.md: Identical streaks", "marin#8936"),
)
