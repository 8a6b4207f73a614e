"""Synthetic courses whose truth is known, and how checks answer on them at every look.

Shared by `benchmarks.reward_limits` and `benchmarks.drift_limits`; nothing here is a measurement by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rlvitals.check import VERDICT_OF, Check, Verdict
from rlvitals.engine import Engine, next_look
from rlvitals.schema import UNKNOWN_TRAINER, Float64, RunConfig

ALARM = (Verdict.ACT, Verdict.STOP)
PHIS = (0.0, 0.3, 0.6, 0.85)
ROLLOUTS = (8, 64, 256, 1024)  # per step: one group of 8 up to 64 groups of 16


def coloured(rng: np.random.Generator, rows: int, phi: float) -> Float64:
    """Return float64[rows] of an AR(1) process with unit variance."""
    shocks = rng.normal(size=rows) * np.sqrt(1 - phi * phi)
    out = np.empty(rows)
    level = float(rng.normal())
    for i in range(rows):
        level = phi * level + shocks[i]
        out[i] = level
    return out


def scores(rng: np.random.Generator, rate: Float64) -> Float64:
    """Return step means of 0/1 rewards: binomial noise, and difficulty that drifts (AR(1), .15 in log-odds)."""
    p = np.clip(rate, 1e-4, 1 - 1e-4)
    odds = np.log(p / (1 - p)) + 0.15 * coloured(rng, rate.size, float(rng.choice(PHIS)))
    n = int(rng.choice(ROLLOUTS))
    return np.asarray(rng.binomial(n, 1 / (1 + np.exp(-odds))) / n)


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows at the first look at which a check had an open incident, and at the first at which it was an alarm."""

    raised: int | None
    alarmed: int | None


def answer(
    check: Check,
    columns: Mapping[str, Float64],
    limits: Mapping[str, float] | None = None,
    evals: Mapping[int, tuple[float, int]] | None = None,
    config: RunConfig | None = None,
) -> Answer:
    """Return when a check answers on columns logged at every step.

    `limits` are {"ID.name": value}; `evals` are {step: (share right, items)} of one held-out set.
    """
    names, values = tuple(columns), np.stack(list(columns.values()))
    engine = Engine((check,), config=config or RunConfig(), trainer=UNKNOWN_TRAINER, limits=limits)
    pending = sorted((evals or {}).items())
    raised: int | None = None
    at, rows = 0, values.shape[1]
    while (upto := next_look(at)) <= rows:
        engine.feed(np.arange(at + 1, upto + 1), names, values[:, at:upto])
        while pending and pending[0][0] <= upto:
            step, (score, items) = pending.pop(0)
            engine.add_eval("held-out", step, score, float("nan"), items, "accuracy")
        engine.look()
        at = upto
        incident = engine.open_incidents().get(check.id)
        if incident is None:
            continue
        raised = raised or at
        if VERDICT_OF[incident.finding.action] in ALARM:
            return Answer(raised, at)
    return Answer(raised, None)


def found(answers: list[tuple[int, Answer]], *, alarms: bool = True) -> tuple[float, float, float]:
    """Return (share answered, share answered before the true onset, median rows from onset to answer).

    `answers` holds the true onset in rows and the answer of each run; runs without an answer have no delay.
    """
    when = [(onset, a.alarmed if alarms else a.raised) for onset, a in answers]
    delays = [at - onset for onset, at in when if at is not None]
    share, early = len(delays) / len(when), sum(d < 0 for d in delays) / len(when)
    return share, early, float(np.median(delays)) if delays else float("nan")
