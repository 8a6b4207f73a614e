"""When a fault began to do harm, and how much: the held-out scores of a run against those of its control."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rlvitals.lab.fault import Harm

LAST = 3  # evaluations whose mean is the score at the end (convention)
LASTING = 3  # evaluations in a row below the control before damage counts (convention)
ERRORS = 2.0  # standard errors of the difference that count as below (convention)

HARMED, TOUCHED = 0.1, 0.03  # of a score of 0 to 1, below the control at the end (convention)

Scores = Sequence[Sequence[float]]
"""(step, score) of each evaluation, in order."""


def end_of(scores: Scores) -> float:
    """Return the mean of the last held-out scores, NaN without any."""
    last = [score for _, score in scores[-LAST:]]
    return math.fsum(last) / len(last) if last else math.nan


def damage_of(scores: Scores, control: Scores, start: int, items: int) -> int:
    """Return the step of the last evaluation before the scores lie below the control's for good, -1 where they don't.

    "For good" is three evaluations in a row, or all that are left of them, at least two.
    """
    beside = {int(step): score for step, score in control}
    pairs = [(int(step), score, beside[int(step)]) for step, score in scores if int(step) in beside]
    below = [step >= start and their - own > ERRORS * _error(own, their, items) for step, own, their in pairs]
    for i in range(1, len(pairs)):
        run = below[i : i + LASTING]
        if all(run) and len(run) >= 2:
            return pairs[i - 1][0]
    return -1


def harm_by(lower: Sequence[float], *, stopped: bool = False) -> Harm:
    """Return the harm by how far the scores at the end lie below those of the controls, one difference per seed.

    Yes: 0.1 in the mean and two standard errors over seeds, and 0.03 in every seed; or the run stopped on itself.
    Mild: 0.1 in the mean but not in every seed or not surely, or 0.03 and two standard errors. None otherwise.
    Raises ValueError where a run has no score to go by.
    """
    if stopped:
        return Harm.YES
    mean, error = mean_of(lower)
    if math.isnan(mean):
        raise ValueError(f"harm cannot be told: a score is missing among {len(lower)} runs")
    sure = mean >= ERRORS * error
    if mean >= HARMED:
        return Harm.YES if sure and min(lower) >= TOUCHED else Harm.MILD
    return Harm.MILD if mean >= TOUCHED and sure else Harm.NONE


def mean_of(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error over seeds, which is infinite for a single one; NaN of nothing."""
    n = len(values)
    if not n:
        return math.nan, math.nan
    mean = math.fsum(values) / n
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1) / n) if n > 1 else math.inf


def _error(one: float, other: float, items: int) -> float:
    """Return the standard error of the difference of two shares of `items`; shares of 0 and 1 have one too."""
    n = max(items, 1)
    smooth = [(p * n + 1) / (n + 2) for p in (one, other)]
    return math.sqrt(sum(p * (1 - p) / n for p in smooth))
