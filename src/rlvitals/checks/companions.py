"""Second signals: what else must have gone wrong before a check of entropy, KL or sampling asks for a move."""

from __future__ import annotations

import math

import numpy as np

from rlvitals.check import Evidence, Onset, SourceKind, Threshold
from rlvitals.checks import course
from rlvitals.checks.common import fmt
from rlvitals.checks.held import drop, errors, wander
from rlvitals.checks.scale import reward_scale
from rlvitals.view import Held, View

REWARD_DROP_Z = Threshold(
    "reward_drop_z",
    4.0,
    "standard errors",
    SourceKind.MEASURED,
    "docs/measurements.md: Second signals",
)
REWARD_DROP_SHARE = Threshold(
    "reward_drop_share",
    0.1,
    "of the reward's range",
    SourceKind.CONVENTION,
    "a tenth of the range matters to a user",
)
HELDOUT_DROP_Z = Threshold(
    "heldout_drop_z",
    2.6,
    "standard errors",
    SourceKind.MEASURED,
    "docs/measurements.md: Held-out drop tests",
)
WIDE = 50  # rows compared beside a plain first signal, as one-prompt steps are noisy
FEW_ROWS_Z = 2.0  # z that a drop needs in a log of fewer than 30 rows
FEW_ROWS = 30
BESIDE_PLAIN = Threshold(
    "reward_drop_z_beside_plain",
    2.5,
    "standard errors",
    SourceKind.MEASURED,
    "docs/measurements.md: Second signals (beside a first signal at twice its limit)",
)
STANDING, STANDING_Z = 2, 1.0  # scores, and standard errors below which nothing points to a drop (definition)
PAIRS_Z = 1.64  # standard errors of the last two or three scores below the best pair (measured: One low score)


def worse(view: View) -> tuple[Evidence, ...]:
    """Return the evidence that the policy got worse: reward below its best, held-out score below its best."""
    return view.cached("companions.worse", lambda: (*reward_fell(view), *heldout_fell(view)))


def policy_worse(view: View) -> tuple[Evidence, ...]:
    """Return the same without a fall of the reward while a held-out score stands: the measure fell, not the policy.

    A verifier that fails, an environment that breaks or harder prompts lower the training reward alone.
    """
    fell, held_out = reward_fell(view), heldout_fell(view)
    if fell and not held_out and any(_stands(held, fell[0].steps[0]) for held in view.evals.values()):
        return ()
    return (*fell, *held_out)


def worse_since(view: View, onset: Onset) -> tuple[Evidence, ...]:
    """Return what says that the policy got worse, falls from a best apart that was reached after a fault had begun.

    A policy that got better with the fault there did not get worse by it.
    """
    best = course.decline(view, "reward_mean").best_step
    found = policy_worse(view)
    return tuple(e for e in found if (best if e.metric == "reward_mean" else e.steps[0]) <= onset.last)


def _stands(held: Held, since: int) -> bool:
    """Return True when two scores or more from a step on show no sign of a drop from the best pair."""
    fall = drop(held) if np.count_nonzero(held.step >= since) >= STANDING else None
    return fall is not None and fall.z < STANDING_Z


def reward_fell(view: View, *, plain: bool = False) -> tuple[Evidence, ...]:
    """Return evidence that the reward is now surely and visibly below its best stretch; empty when it is not.

    `plain` says that the first signal alone is already far over its limit: less certainty is needed then.
    """
    found = course.decline(view, "reward_mean", WIDE if plain else course.START_ROWS)
    limit = BESIDE_PLAIN if plain else REWARD_DROP_Z
    span = reward_scale(view).span
    if not math.isfinite(found.best) or not span > 0:
        return ()
    few = view.count("reward_mean") < FEW_ROWS
    if not found.z >= (FEW_ROWS_Z if few else limit.value) or found.drop < REWARD_DROP_SHARE.value * span:
        return ()
    return (
        Evidence(
            "reward_mean",
            f"reward fell from {fmt(found.best)} (best stretch, from step {found.best_step}) to {fmt(found.now)} "
            f"over steps {found.steps[0]}-{found.steps[1]}, {fmt(found.z)} standard errors; limit {limit}",
            found.z,
            "standard errors",
            found.steps,
            limit,
            ">",
            found.best,
        ),
    )


def heldout_fell(view: View) -> tuple[Evidence, ...]:
    """Return evidence of the held-out sets whose last score is surely below their best one.

    From four scores on the last two or three together must lie below the best pair as well: one low score is no fall.
    """
    out = []
    for name, held in view.evals.items():
        se = errors(held)
        if held.score.size < 3 or not np.isfinite(se).all():
            continue
        best = int(np.argmax(held.score[:-1]))
        error = max(math.hypot(float(se[best]), float(se[-1])), math.sqrt(2) * wander(held.score[:-1]))
        lost = float(held.score[best] - held.score[-1])
        z = course.chosen_z(lost, error, held.score.size - 1) if error > 0 else math.nan
        if not z > HELDOUT_DROP_Z.value or _alone(held):
            continue
        out.append(
            Evidence(
                f"held-out {name}",
                f"held-out {name} fell from {fmt(float(held.score[best]))} at step {int(held.step[best])} to "
                f"{fmt(float(held.score[-1]))} at step {int(held.step[-1])}, {fmt(z)} standard errors; "
                f"limit {HELDOUT_DROP_Z}",
                z,
                "standard errors",
                (int(held.step[best]), int(held.step[-1])),
                HELDOUT_DROP_Z,
                ">",
                float(held.score[best]),
            )
        )
    return tuple(out)


def _alone(held: Held) -> bool:
    """Return True when the scores before the last one do not point down."""
    fall = drop(held)
    return fall is not None and math.isfinite(fall.z) and not fall.z > PAIRS_Z


def reward_place(view: View, k: int = course.START_ROWS) -> float:
    """Return where the recent reward lies between its known bounds, 0 to 1; NaN when the bounds are not known."""
    scale = reward_scale(view)
    _, values = view.recent("reward_mean")
    if not scale.known or values.size == 0:
        return math.nan
    return scale.place(float(values[-k:].mean()))


def reward_words(view: View) -> str:
    """Say what the reward does meanwhile, for the texts of findings."""
    found = course.decline(view, "reward_mean")
    if not math.isfinite(found.now):
        return "reward: not enough logged values to compare"
    return f"reward is at {fmt(found.now)}, its best stretch was {fmt(found.best)} from step {found.best_step}"
