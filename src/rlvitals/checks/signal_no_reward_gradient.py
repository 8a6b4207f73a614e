"""S005: the weights move although no group carries a reward difference: only KL or entropy terms drive them."""

from __future__ import annotations

from collections.abc import Mapping

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
    LookAlike,
    Needs,
    NoData,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.base_success import may_take_off
from rlvitals.checks.signal_common import centre, level_onset, span, standing, tied_groups
from rlvitals.store import WINDOW
from rlvitals.view import View

MIN_ROWS = 20
ALL_TIED = 0.999  # a printed share of 1.000
ENOUGH_GROUPS = 150  # groups in a row: chance 1 in 2,000 where pairs tie in 95% of cases (pass rate 0.025)


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    tied = tied_groups(view)
    if tied is None or tied.size < MIN_ROWS:
        there = tied.metrics if tied is not None else ("zero_variance_frac", "reward_std")
        return NoData(there, f"{MIN_ROWS} values of one are needed")
    rows = dict(zip(view.steps_of().tolist(), view.rows_of("grad_norm").tolist(), strict=True))
    grad = np.array([rows.get(int(s), np.nan) for s in tied.steps])
    known = np.isfinite(grad)
    dead = known & (tied.values >= ALL_TIED)
    moving = dead & (grad > 0)
    limit = limits["dead_rows"]
    if int(known.sum()) < MIN_ROWS:
        return NoData(("grad_norm",), f"needs {MIN_ROWS} rows with both")
    share = float(moving.sum() / known.sum())
    if share < limit.value:
        return Clear(
            f"{share:.0%} of the last {int(known.sum())} rows had a gradient without any mixed group; limit {limit}"
        )
    stand = standing(view)
    terms = [
        f"{name} {value:g}"
        for name, value in (("KL coefficient", view.config.kl_coef), ("entropy coefficient", view.config.entropy_coef))
        if value
    ]
    driver = " and ".join(terms) if terms else "KL, entropy or auxiliary terms"
    norm = centre(grad[moving])
    evidence = Evidence(
        metric="grad_norm",
        text=f"in {int(moving.sum())} of the last {int(known.sum())} rows every group was tied ({tied.source}) and the "
        f"gradient norm still was {norm:.3g} (median): it comes from {driver}; limit {limit}",
        observed=share,
        unit="share of rows",
        steps=span(tied.steps),
        threshold=limit,
        comparison=">",
    )
    onset = level_onset(tied.trace, view.first_seen("grad_norm"))
    solved, proven = stand.solved, _lasts(view)
    action = Action.FIX if proven and not solved and not may_take_off(view) else Action.WATCH
    summary = f"no group carries a reward difference, yet the weights move: {driver} alone drive the updates"
    if solved:
        summary += "; the reward is at its top, so there is nothing left to learn here"
    confidence = Confidence.HIGH if proven else Confidence.MEDIUM
    return Fired(Finding(summary, action, confidence, onset, (evidence,), "solved" if solved else ""))


def _lasts(view: View) -> bool:
    """True when so many groups in a row were tied that a low pass rate alone does not explain it."""
    longer = tied_groups(view, WINDOW)
    if longer is None:
        return False
    mixed = np.flatnonzero(longer.values < ALL_TIED)
    streak = longer.size - (int(mixed[-1]) + 1 if mixed.size else 0)
    return streak * (view.config.prompts_per_step or 1) >= ENOUGH_GROUPS


CHECK = Check(
    id="S005",
    name="no-reward-gradient",
    family=Family.SIGNAL,
    fault="The weights move although no group carries a reward difference: only KL or entropy terms drive them.",
    why="When every group is tied the reward contributes no gradient. A KL or entropy term then moves the policy "
    "by itself: "
    "an entropy bonus makes it random, a KL term used as a loss can push sampled tokens down without limit.",
    needs=Needs(all_of=("grad_norm",), any_of=("zero_variance_frac", "advantage_std", "reward_std"), rows=MIN_ROWS),
    thresholds=(
        Threshold(
            "dead_rows",
            0.95,
            "share of rows",
            SourceKind.DEFINITION,
            "tied groups have zero advantage, so a gradient there is not the reward's",
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Restore reward differences first: check the verifier, then the difficulty", "curriculum", "set"
                ),
                Remedy("Switch off the entropy bonus until groups are mixed again", "entropy_coef", "lower"),
                Remedy(
                    "Check the KL estimator: as a loss, summed k1 has no restoring gradient", "kl_estimator", "check"
                ),
            ),
            verify=(Verify("the share of tied groups is below 0.95", "zero_variance_frac", "<", 0.95, 20),),
            rollback=Rollback.BEFORE_ONSET,
        ),
        "solved": Plan(
            remedies=(Remedy("Stop here or raise the difficulty", "curriculum", "raise"),),
            verify=(Verify("the share of tied groups is below 0.95", "zero_variance_frac", "<", 0.95, 20),),
        ),
    },
    leads_to=("E002", "E004", "K001", "R010"),
    look_alikes=(
        LookAlike("A solved task with a KL term", "the reward is at its top: watch, not a fault"),
        LookAlike("One group per step, tied in most steps", "at least 95% of the rows must be without a mixed group"),
    ),
    patience=2,
    sources=("docs/evidence.md: Finite-group law", "trl PR#5640"),
)
