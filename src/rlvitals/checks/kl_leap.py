"""How far the first updates threw the policy from its reference, and what reward that distance has bought since.

Nothing here decides; K001 compares the numbers with its limits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlvitals import stats
from rlvitals.checks import course
from rlvitals.checks.common import from_start, thirds
from rlvitals.checks.scale import reward_scale
from rlvitals.view import View

BEGUN, LEAPT = 3, 13  # values left out, and values looked at: after the first updates, before learning needs distance
ROWS = 80  # logged values before the distance is held against the reward: in the first ones nothing is earned yet
ONE_STEP = 1.5  # steps between rows up to which the first rows are the first updates
BOUND_Z = 1.64  # normal quantile of a one-sided 0.05


@dataclass(frozen=True, slots=True)
class Leap:
    """The leap of the first updates and what it is worth by now.

    Attributes:
        first: KL in the lower of the first two rows, nats; level: median of rows 4 to 13; now: median of the last
            third.
        gain: upper bound of the reward's gain from its first ten values to the last third, share of its range.
        place: where the reward stands now, 0 to 1 of its range.
        steps: of rows 4 to 13; since: steps behind the gain.
    """

    first: float
    level: float
    now: float
    early: float
    late: float
    gain: float
    place: float
    steps: tuple[int, int]
    since: tuple[int, int]

    @property
    def paid(self) -> float:
        """Share of the reward's range per nat, at most."""
        return self.gain / self.now if self.now > 0 else math.nan


def leap(view: View) -> Leap | None:
    """Return the leap; None where rows are not single steps or too few, or step means alone show the reward's range."""
    head, scale = view.head("kl_ref", LEAPT), reward_scale(view)
    few = min(view.count("kl_ref"), view.count("reward_mean")) < ROWS
    if few or not scale.seen or not scale.span > 0 or course.row_spacing(view, "kl_ref") > ONE_STEP:
        return None
    moved, begin = from_start(view, "reward_mean", z=BOUND_Z), view.first_seen("kl_ref")
    spacing = course.row_spacing(view, "kl_ref")
    return Leap(
        float(head[:2].min()),
        stats.median(head[BEGUN:]),
        stats.median(thirds(view, "kl_ref")[1]),
        moved.early,
        moved.late,
        moved.high / scale.span,
        scale.place(moved.late),
        (begin + int(BEGUN * spacing), begin + int((LEAPT - 1) * spacing)),
        moved.steps,
    )
