"""Mastery: a high reward that a held-out score confirms, so that what comes with it is no fault.

A policy that solves its task is sure of its answers and repeats them. So does one that exploits its verifier: only a
held-out score tells the two apart. Nothing here decides.
"""

from __future__ import annotations

import math

from rlvitals.check import Evidence
from rlvitals.checks import companions
from rlvitals.checks.common import fmt, shift
from rlvitals.checks.held import drop, errors, trained_on
from rlvitals.checks.scale import reward_scale
from rlvitals.view import Held, View

HIGH = 0.75  # of the reward's range (convention: most of what is sampled is right, so that copies mostly are)
LAST = 3  # newest scores that are held against the first one
BOUND_Z = 1.64  # normal quantile of a one-sided 0.05
FOLLOWS = 0.25  # of the training gain, in ranges (measured: docs/measurements.md: transfer ratio)


def confirmed(view: View) -> Evidence | None:
    """Return the held-out score that rose with a high reward; None where none did, or one fell."""
    return view.cached("mastery.confirmed", lambda: _confirmed(view))


def _confirmed(view: View) -> Evidence | None:
    if not companions.reward_place(view) >= HIGH or companions.worse(view):
        return None
    risen = [found for name, held in sorted(view.evals.items()) if (found := _risen(view, name, held)) is not None]
    return risen[0] if risen else None


def _risen(view: View, name: str, held: Held) -> Evidence | None:
    """Return the rise of one held-out accuracy when it is beyond its errors and follows the training reward."""
    size, fall = held.score.size, drop(held)
    if held.metric != "accuracy" or trained_on(view, name) != "reward_mean" or size <= LAST:
        return None
    if fall is not None and fall.z > companions.HELDOUT_DROP_Z.value:
        return None
    error = errors(held)
    before, now = float(held.score[0]), float(held.score[-LAST:].mean())
    spread = math.hypot(float(error[0]), math.sqrt(float((error[-LAST:] ** 2).sum())) / LAST)
    moved, span = shift(view, "reward_mean"), reward_scale(view).span
    needed = FOLLOWS * max(moved.late - moved.early, 0.0) / span if span > 0 else math.nan
    if not now - before - BOUND_Z * spread > needed:  # false for NaN too
        return None
    steps = (int(held.step[0]), int(held.step[-1]))
    place = companions.reward_place(view)
    text = f"the reward is at {place:.0%} of its range and held-out {name} rose with it, {fmt(before)} to {fmt(now)}"
    return Evidence(f"held-out/{name}", text, now, "fraction", steps, before=before)
