"""Mastery: a high reward that a held-out score confirms, so that what comes with it is no fault.

A policy that solves its task is sure of its answers and repeats them. So does one that exploits its verifier, or that
has settled on answers of which half are wrong: only a held-out score tells them apart. Nothing here decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlvitals.check import Evidence
from rlvitals.checks import companions
from rlvitals.checks.common import RECENT, fmt
from rlvitals.checks.held import NEWEST, Climb, climb, trained_on
from rlvitals.checks.scale import reward_scale
from rlvitals.view import Held, View

HIGH = 0.75  # of the reward's range, and of held-out items (convention: most of what is repeated is right)
BOUND_Z = 1.64  # normal quantile of a one-sided 0.05
FOLLOWS = 0.25  # of the training gain, in ranges (measured: docs/measurements.md: transfer ratio)


@dataclass(frozen=True, slots=True)
class Rise:
    """How far one held-out accuracy rose, and how far training asks it to (`needed`, of items)."""

    name: str
    climb: Climb
    needed: float
    steps: tuple[int, int]

    @property
    def sure(self) -> bool:
        """True when it rose beyond its error and followed training."""
        return self.climb.beyond(BOUND_Z, self.needed)

    @property
    def stood(self) -> bool:
        """True when it surely did not follow; false for NaN too."""
        return self.climb.now - self.climb.before + BOUND_Z * self.climb.error < self.needed


def confirmed(view: View) -> Evidence | None:
    """Return the held-out score that is high and rose with a high reward; None where none is, or one stood or fell."""
    return view.cached("mastery.confirmed", lambda: _confirmed(view))


def _confirmed(view: View) -> Evidence | None:
    place = companions.reward_place(view)
    gained = _gained(view)
    if not place >= HIGH or not gained > 0 or companions.worse(view):
        return None
    rises = [r for name, held in sorted(view.evals.items()) if (r := _rise(view, name, held, gained)) is not None]
    best = max((r for r in rises if r.sure), key=lambda r: r.climb.now, default=None)
    if best is None or not best.climb.now >= HIGH or any(r.stood for r in rises):
        return None
    before, now = best.climb.before, best.climb.now
    text = (
        f"the reward is at {place:.0%} of its range and held-out {best.name} rose with it, {fmt(before)} to {fmt(now)}"
    )
    return Evidence(f"held-out/{best.name}", text, now, "fraction", best.steps, before=before)


def _gained(view: View) -> float:
    """Return what the reward gained since the first rows, as a share of its range; NaN where that is unknown."""
    span = reward_scale(view).span
    first, now = view.head("reward_mean"), view.recent("reward_mean")[1][-RECENT:]
    return float(now.mean() - first.mean()) / span if span > 0 and first.size and now.size else math.nan


def _rise(view: View, name: str, held: Held, gained: float) -> Rise | None:
    """Return how far one accuracy on what is trained rose; None for too few scores, or where it fell from its best."""
    found = climb(held) if held.score.size > NEWEST else None
    if found is None or held.metric != "accuracy" or trained_on(view, name) != "reward_mean":
        return None
    if found.fallen > companions.HELDOUT_DROP_Z.value:
        return None
    return Rise(name, found, FOLLOWS * gained, (int(held.step[0]), int(held.step[-1])))
