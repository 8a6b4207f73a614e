"""Which checkpoint: by held-out score alone, with the interval of a finite set and the bias of best-of-n."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlvitals import shares
from rlvitals.checks.held import errors
from rlvitals.schema import Evals
from rlvitals.view import Held

DRAWS = 4_000  # parametric bootstrap draws
SEED = 20_261_129


@dataclass(frozen=True, slots=True)
class Choice:
    """The checkpoint that a held-out set supports.

    Attributes:
        step: the earliest evaluation within one standard error of the best.
        best_step, best_score: the highest score seen; `low`, `high` its 95% interval over a set of `items` items.
        bias: how much the best of `evaluations` scores overstates itself, in the unit of the score; NaN when unknown.
    """

    held_out: str
    step: int
    score: float
    best_step: int
    best_score: float
    low: float
    high: float
    bias: float
    evaluations: int
    items: int


def choose(evals: Evals) -> Choice | None:
    """Return the choice of one held-out set, None without evaluations."""
    if evals.step.size == 0 or not np.isfinite(evals.score).any():
        return None
    error = errors(Held(evals.step, evals.score, evals.stderr, evals.items, evals.metric))
    score = np.where(np.isfinite(evals.score), evals.score, -np.inf)
    best = int(np.argmax(score))
    slack = float(error[best]) if np.isfinite(error[best]) else 0.0
    first = int(np.flatnonzero(score >= score[best] - slack)[0])
    low, high = _interval(float(score[best]), slack, evals.items)
    return Choice(
        evals.name,
        int(evals.step[first]),
        float(score[first]),
        int(evals.step[best]),
        float(score[best]),
        low,
        high,
        _bias(score, error),
        int(np.isfinite(evals.score).sum()),
        evals.items,
    )


def _interval(score: float, error: float, items: int) -> tuple[float, float]:
    """Return Wilson's interval for a share of items, else the normal one, NaN without an error."""
    if items > 0 and 0 <= score <= 1:
        return shares.wilson(score * items, items)
    if not error:
        return math.nan, math.nan
    return score - 1.96 * error, score + 1.96 * error


def _bias(score: np.ndarray, error: np.ndarray) -> float:
    """Return how much a maximum over noisy scores exceeds the true score of the one chosen, on average.

    Each draw adds each evaluation's own noise, chooses the best anew and notes by how much the noise lifted it.
    """
    known = np.isfinite(score) & np.isfinite(error)
    if known.sum() < 2:
        return math.nan
    draw = np.random.default_rng(SEED)
    noise = draw.standard_normal((DRAWS, int(known.sum()))) * error[known]
    chosen = np.argmax(score[known] + noise, axis=1)
    return float(noise[np.arange(DRAWS), chosen].mean())
