"""O005: in one task family rollouts have come to end with errors or time-outs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

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
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import companions
from rlvitals.checks.common import fmt, onset_of
from rlvitals.checks.rollout_common import ROWS, Recent, recent, speaks
from rlvitals.view import View

PREFIX, EFFECT, COUNT = "rollouts/broken_family/", "rollouts/broken_effect/", "rollouts/family_count/"


CLUSTERS = 5  # broken rollouts over the design effect: so many independent ones make a normal quantile usable


@dataclass(frozen=True, slots=True)
class Moved:
    """One family: its share of broken endings at the start and now, and the clustered z of the difference."""

    label: str
    start: float
    now: Recent
    z: float
    effect: float


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    moved = [m for m in (_moved(view, n.removeprefix(PREFIX)) for n in view.family(PREFIX)) if m is not None]
    if not moved:
        return Clear(f"no family has {2 * ROWS} steps with known endings")
    limit, sure = limits["broken_share"], limits["z"]
    bad = [m for m in moved if m.now.mean >= limit.value and m.z > sure.value]
    worst = max(bad or moved, key=lambda m: m.z if bad else m.now.mean)
    seen = (
        f"{worst.now.mean:.1%} of the rollouts of {worst.label} end with an error or time-out, {worst.start:.1%} at "
        f"the start ({worst.z:+.1f} standard errors, design effect {fmt(worst.effect)})"
    )
    if not bad:
        return Clear(f"{seen}; limit {limit}")
    first = speaks(worst.now, seen, limit, ">=", before=worst.start, examples=view.examples("stops", 3))
    text = f"the share moved by {fmt(worst.z)} standard errors, rollouts of a group counted as alike; limit {sure}"
    second = Evidence(PREFIX + worst.label, text, worst.z, "standard errors", worst.now.span, sure, ">")
    onset = onset_of(view, PREFIX + worst.label, 0.5 * (worst.start + worst.now.mean), np.inf)
    others = [m for m in moved if m not in bad]
    alone = f", in {len(others)} other families not" if others else ""
    what = f"rollouts of {worst.label} end with errors or time-outs, {worst.start:.0%} to {worst.now.mean:.0%}{alone}"
    many, worse = limits["broken_many"], companions.reward_fell(view)
    serious = worst.now.mean >= many.value and bool(worse)
    action = Action.FIX if serious else Action.WATCH
    confidence = Confidence.HIGH if serious else Confidence.MEDIUM
    return Fired(Finding(what, action, confidence, onset, (first, second, *worse)))


def _moved(view: View, label: str) -> Moved | None:
    """Compare the last steps with the first ones: first-order Rao-Scott, with the design effect of the groups."""
    metric = PREFIX + label
    now, count = recent(view, metric), recent(view, COUNT + label)
    if view.count(metric) < 2 * ROWS or not count.n:
        return None
    start = float(view.head(metric, ROWS).mean())
    n0, n1 = float(view.head(COUNT + label, ROWS).sum()), float(count.values.sum())
    effect = _effect(view, label)
    p = (n0 * start + n1 * now.mean) / (n0 + n1)
    variance = p * (1 - p) * (1 / n0 + 1 / n1) * effect
    moved = now.mean - start
    enough = n1 * now.mean / effect >= CLUSTERS
    return Moved(label, start, now, moved / math.sqrt(variance) if variance > 0 and enough else 0.0, effect)


def _effect(view: View, label: str) -> float:
    """Return the mean design effect of the recent steps in which it could be told, else the size of a group."""
    known = recent(view, EFFECT + label, 2 * ROWS)
    if known.n >= 3:
        return max(known.mean, 1.0)
    size = recent(view, "rollouts/group_size_mean")
    return max(size.mean, 1.0) if size.n else float(view.config.group_size or 1)


CHECK = Check(
    id="O005",
    name="family-endings-break",
    family=Family.ROLLOUT,
    fault="In one task family rollouts have come to end with errors or time-outs.",
    why="An environment that breaks for one kind of task punishes the policy for it there. The share over all rollouts "
    "hides a small family. Rollouts of one group end alike, so the test counts them as clustered: without that it is "
    "wrong in up to half of the cases.",
    needs=Needs(any_of=(PREFIX,), rows=2 * ROWS),
    thresholds=(
        Threshold(
            "broken_share", 0.05, "of rollouts", SourceKind.PAPER, "prime-rl documentation: errored rollouts above 5%"
        ),
        Threshold("broken_many", 0.2, "of rollouts", SourceKind.MEASURED, "docs/measurements.md: Termination reasons"),
        Threshold("z", 4, "standard errors", SourceKind.MEASURED, "docs/measurements.md: Rollout checks"),
        companions.REWARD_DROP_Z,
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Read the named rollouts and the environment's log of that family at the onset", "", "check"),
                Remedy("Leave errored rollouts out of the update instead of scoring them 0", "verifier", "set"),
            ),
            verify=(Verify("less than 5% of that family's rollouts end with an error", PREFIX, "", None, 20),),
        ),
    },
    leads_to=("O003", "R006", "R011", "R014", "R002"),
    patience=2,
    look_alikes=(
        LookAlike("A group of eight errors at once", "counted as one cluster, not as eight errors"),
        LookAlike("More rollouts stop by themselves or at the budget", "these move with learning: not counted"),
    ),
    sources=("Why GRPO training fails: termination and reset", "docs/measurements.md: Termination reasons"),
)
