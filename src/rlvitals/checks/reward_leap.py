"""Whether a reward got to one constant value by learning, or from one step to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlvitals import stats
from rlvitals.schema import Float64

BEFORE = 20  # logged values before the constant stretch that tell where the reward came from
LEAST_BEFORE = 10  # of them, so that their noise is known
NEAR = 10  # the last of them: how far away the reward still was
SURE = 2.6  # standard errors by which the slope towards the constant is taken smaller than it looks (convention: 99%)
LAST = 3  # the very last: whether it was on its way there


@dataclass(frozen=True, slots=True)
class Leap:
    """How far a reward was from the constant that it then stayed at.

    Attributes:
        away: mean distance over the last values before, in the reward's unit.
        level: their mean.
        units: that distance in the smallest amounts by which this reward falls short; lowest: of the nearest value.
        left: share of that distance that was left in the very last values.
        trend: the leap in steps of the trend that led there; infinite where none clearly did.
        rows: logged values that this rests on.
    """

    away: float
    level: float
    units: float
    lowest: float
    left: float
    trend: float
    rows: int


def leap_to(value: float, before: Float64) -> Leap | None:
    """Return the leap from the values before (oldest first) to a constant one; None where they say too little.

    What falls short comes in pieces: rollouts, or groups of them that fail together. Their number in a step varies like
    counts do, with the variance of its mean, so that variance / mean is the size of one piece, whatever the batch. The
    variance is taken from successive differences: a rise on the way is no noise. None too where any of the values was
    there already: then nothing leapt. A series so smooth that its pieces are next to nothing is far from anything, in
    pieces: so a leap has to be long beside the steps of its own trend too.
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
    trend = min(_in_steps(short), _in_steps(near))
    level, lowest = stats.mean(before[-NEAR:]), float(near.min()) / piece
    return Leap(away, level, away / piece, lowest, left, trend, int(before.size))


def _in_steps(short: Float64) -> float:
    """Return the last distance of a straight line through these in its steps at their surest, infinite without any."""
    at = np.arange(short.size) - (short.size - 1) / 2
    power = float((at * at).sum())
    step = -float((at * short).sum()) / power
    off = short - stats.mean(short) + step * at
    error = float(np.sqrt((off * off).sum() / (short.size - 2) / power))
    sure = step - SURE * error
    return float(stats.mean(short) - step * at[-1]) / sure if sure > 0 else np.inf
