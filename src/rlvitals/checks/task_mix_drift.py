"""T006: the reward moves because other tiers are drawn, not because the policy does better or worse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

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
    NotApplicable,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import course
from rlvitals.checks.common import onset_of
from rlvitals.checks.rollout_common import LEAST, ROWS
from rlvitals.schema import Float64
from rlvitals.view import View

SHARE, REWARD = "rollouts/tier_share/", "rollouts/reward_tier/"


@dataclass(frozen=True, slots=True)
class Split:
    """The reward's change between two stretches of rows, and the part of it that the mix of tiers made.

    Attributes:
        tier, before, after, z: the tier whose share moved most, its shares, and the standard errors of that move.
        mix, total: change of the reward by the mix, and in all; reward_z: standard errors of the logged mean's change.
    """

    tier: str
    before: float
    after: float
    z: float
    mix: float
    total: float
    reward_z: float
    steps: tuple[int, int]


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    tiers = [n.removeprefix(SHARE) for n in view.family(SHARE)]
    if len(tiers) < 2:
        return NotApplicable("one difficulty tier: its share cannot move")
    splits = [found for at in _cuts(view, tiers) if (found := _split(view, tiers, at)) is not None]
    if not splits:
        return Clear(f"fewer than {2 * ROWS} recent steps tell the tiers apart")
    limit, part, sure = limits["share_moved"], limits["of_change"], limits["z"]
    made = [
        s
        for s in splits
        if abs(s.after - s.before) >= limit.value
        and min(abs(s.z), abs(s.reward_z)) >= sure.value
        and s.mix * s.total > 0
        and abs(s.mix) >= part.value * abs(s.total)
    ]
    found = max(made or splits, key=lambda s: abs(s.after - s.before))
    seen = (
        f"tier {found.tier} went from {found.before:.0%} to {found.after:.0%} of the rollouts; the mix moved the "
        f"reward by {found.mix:+.3g} of {found.total:+.3g} in all"
    )
    if not made:
        return Clear(f"{seen}; limits {limit}, {part}")
    text = f"{seen}, over steps {found.steps[0]}-{found.steps[1]}; limit {part}"
    share = abs(found.mix / found.total)
    first = Evidence(SHARE + found.tier, text, share, part.unit, found.steps, part, ">=", found.before)
    middle = 0.5 * (found.before + found.after)
    up = found.after > found.before
    onset = onset_of(view, SHARE + found.tier, *((middle, math.inf) if up else (-math.inf, middle)))
    word = "falls" if found.total < 0 else "rises"
    what = (
        f"the reward {word} with the mix of tiers: {found.tier} {found.before:.0%} to {found.after:.0%} of the rollouts"
    )
    variant = "harder" if found.total < 0 else "easier"
    return Fired(Finding(what, Action.WATCH, Confidence.HIGH, onset, (first,), variant))


def _cuts(view: View, tiers: list[str]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the stretches to compare: first against last rows, and those around the sharpest move of a share."""
    rows = view.steps_of().size
    if rows < 2 * ROWS:
        return []
    out = [(np.arange(ROWS), np.arange(rows - ROWS, rows))]
    for tier in tiers:
        share = np.nan_to_num(view.rows_of(SHARE + tier))
        means = stats.running_means(share, ROWS)
        at = ROWS + int(np.argmax(np.abs(means[ROWS:] - means[:-ROWS])))
        out.append((np.arange(at - ROWS, at), np.arange(at, at + ROWS)))
    return out


def _split(view: View, tiers: list[str], at: tuple[np.ndarray, np.ndarray]) -> Split | None:
    early, late = at
    mix = total = 0.0
    moved = ("", 0.0, 0.0, 0.0)
    for tier in tiers:
        share, reward = np.nan_to_num(view.rows_of(SHARE + tier)), view.rows_of(REWARD + tier)
        before, after, z = _change(share[early], share[late])
        pay0, pay1, _ = _change(reward[early], reward[late])
        pay0, pay1 = (pay1 if math.isnan(pay0) else pay0), (pay0 if math.isnan(pay1) else pay1)
        if math.isnan(pay0):
            continue
        mix += (after - before) * 0.5 * (pay0 + pay1)
        total += after * pay1 - before * pay0
        if abs(after - before) > abs(moved[2] - moved[1]):
            moved = (tier, before, after, z)
    mean = view.rows_of("reward_mean")
    reward_z = _change(mean[early], mean[late])[2]
    if not moved[0] or total == 0.0:
        return None
    steps = view.steps_of()
    return Split(*moved, mix, total, reward_z, (int(steps[early[0]]), int(steps[late[-1]])))


def _change(early: Float64, late: Float64) -> tuple[float, float, float]:
    """Return (mean before, mean after, standard errors of the change), NaN and 0 for fewer than five values."""
    a, b = early[np.isfinite(early)], late[np.isfinite(late)]
    if a.size < LEAST or b.size < LEAST:
        return (float(a.mean()) if a.size else math.nan, float(b.mean()) if b.size else math.nan, 0.0)
    found = stats.change(a, b, z=1.0)
    error, moved = found.high - found.difference, found.difference
    return (float(a.mean()), float(b.mean()), moved / max(error, abs(moved) / course.CERTAIN) if moved else 0.0)


CHECK = Check(
    id="T006",
    name="tier-mix-drift",
    family=Family.TASK,
    fault="The reward moves because tasks of another difficulty are drawn, not because the policy changes.",
    why="A curriculum, a filter or an environment that grows harder over its resets changes which tasks are drawn. The "
    "mean reward then falls or rises with the mix while success on each tier stands still, and looks like collapse or "
    "like learning. The change splits exactly into a part from the mix and a part within tiers (Kitagawa).",
    needs=Needs(any_of=(SHARE,), rows=2 * ROWS),
    thresholds=(
        Threshold("share_moved", 0.15, "of the rollouts", SourceKind.CONVENTION, "more than one rollout in seven"),
        Threshold("of_change", 0.5, "of the reward's change", SourceKind.DEFINITION, "the mix is then the larger part"),
        Threshold("z", 4, "standard errors", SourceKind.MEASURED, "docs/measurements.md: Rollout checks"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Read success per tier, not the mean reward", "", "check"),
                Remedy(
                    "Check whether the curriculum, a filter or the environment changed the tasks", "curriculum", "check"
                ),
            ),
            verify=(Verify("success does not fall on any tier", "success_tier/", "not falling", None, 50),),
        ),
    },
    leads_to=("R002", "R014", "R010", "S001", "T001", "L002"),
    patience=2,
    look_alikes=(
        LookAlike("A policy that gets worse on every tier", "the part within tiers is the larger one"),
        LookAlike("A planned curriculum while the reward holds", "the reward itself must have moved the same way"),
    ),
    sources=("docs/measurements.md: Kitagawa split of the gain", "Why GRPO training fails: termination and reset"),
)
