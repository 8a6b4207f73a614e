"""Whether a reward got to one constant value by learning, or from one step to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlvitals import stats
from rlvitals.schema import Float64

BEFORE = 20  # logged values before the constant stretch that tell where the reward came from
LEAST_BEFORE = 10  # of them, so that their noise is known
NEAR = 10  # the last of them: how far away the reward still was
LAST = 3  # the very last: whether it was on its way there


@dataclass(frozen=True, slots=True)
class Leap:
    """How far a reward was from the constant that it then stayed at.

    Attributes:
        away: mean distance over the last values before, in the reward's unit.
        level: their mean.
        units: that distance in the smallest amounts by which this reward falls short; lowest: of the nearest value.
        left: share of that distance that was left in the very last values.
        rows: logged values that this rests on.
    """

    away: float
    level: float
    units: float
    lowest: float
    left: float
    rows: int


def leap_to(value: float, before: Float64) -> Leap | None:
    """Return the leap from the values before (oldest first) to a constant one; None where they say too little.

    What falls short comes in pieces: rollouts, or groups of them that fail together. Their number in a step varies like
    counts do, with the variance of its mean, so that variance / mean is the size of one piece, whatever the batch. The
    variance is taken from successive differences: a rise on the way is no noise. None too where any of the values was
    there already: then nothing leapt.
    """
    short = np.abs(value - before)
    if before.size < LEAST_BEFORE or not np.all(short > 0):
        return None
    steps = before[1:] - before[:-1]
    piece = 0.5 * float((steps * steps).mean()) / stats.mean(short)
    if not piece > 0:
        return None
    near = short[-NEAR:]
    away = stats.mean(near)
    left = stats.mean(short[-LAST:]) / away
    return Leap(away, stats.mean(before[-NEAR:]), away / piece, float(near.min()) / piece, left, int(before.size))
