"""Falls of the KL to the reference: rows that fall from a level at once to nothing and grow anew, found row by row."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from rlvitals.check import Fold, SourceKind, Threshold
from rlvitals.view import Chunk

ROWS = 20  # rows before a fall that give its level: one spike is no level
START_ROWS = 3  # rows of the run's own start: so near to its reference is a policy that has just left it
KEPT = 8  # falls that are kept
GROWN = 2  # rows above a fall, and still low, that make it one
QUIET = 100  # rows before it without another one so low: a series that falls so and comes back has such rows
SHARE = Threshold("share", 0.05, "of its level", SourceKind.MEASURED, "docs/measurements.md: Reference replaced")
HELD = Threshold("held", 0.5, "of its level", SourceKind.MEASURED, "docs/measurements.md: Reference replaced")
ZERO = Threshold(
    "zero",
    0.002,
    "nats",
    SourceKind.MEASURED,
    "docs/measurements.md: Sampler and trainer numerics (k3 of two bf16 passes is below 2e-3)",
)


@dataclass(frozen=True, slots=True)
class Fall:
    """A fall of KL: steps of the rows on its sides, the level before and its lowest row, the rows after."""

    before: int
    at: int
    level: float
    lowest: float
    after: tuple[float, ...]
    rates: tuple[float, ...]  # learning rates of the row before and of those after; NaN where not logged

    @property
    def grown(self) -> tuple[float, ...]:
        """The rows from the first one on that is above the row of the fall."""
        above = next((i for i, v in enumerate(self.after) if v > self.after[0]), len(self.after))
        return self.after[above:]


@dataclass(frozen=True, slots=True)
class Falls:
    """The rows that give the level now, a fall that is not judged yet, and what was found."""

    level: tuple[float, ...] = ()  # the last KL values, oldest first
    step: int = -1  # step of the newest of them
    rate: float = math.nan  # learning rate of that row
    start: tuple[float, ...] = ()  # the first KL values
    open: Fall | None = None
    since_low: int = QUIET  # rows since one was as low as a fall
    found: tuple[Fall, ...] = ()  # the first ones that nobody planned
    planned: int = 0
    deepest: float = math.inf  # lowest share of the level before that any row had
    deepest_at: int = -1


def _step(state: Falls, chunk: Chunk) -> Falls:
    kl, rates = chunk.col("kl_ref"), chunk.col("learning_rate")
    for i in np.flatnonzero(np.isfinite(kl)):
        value, step, rate = float(kl[i]), int(chunk.steps[i]), float(rates[i])
        if len(state.start) < START_ROWS:
            state = replace(state, start=(*state.start, value))
        if state.open is None:
            state = _look(state, value, step, rate)
        else:
            state = _follow(state, state.open, value, step, rate)
            state = _settle(state, chunk.config.reference_reset_steps)
    return state


def _look(state: Falls, value: float, step: int, rate: float) -> Falls:
    """Take a row while the level stands; it may open a fall."""
    level = _median(state.level) if len(state.level) == ROWS else 0.0
    if level > 0 and value / level < state.deepest:
        state = replace(state, deepest=value / level, deepest_at=step)
    low = level > 0 and value <= SHARE.value * level
    # a level with rows near zero is bursts between them; far below 0 is no policy that equals its reference
    steady = low and min(state.level) > SHARE.value * level and state.since_low >= QUIET
    near = max((v for v in state.start if v <= SHARE.value * level), default=0.0)
    if steady and -ZERO.value <= value <= max(ZERO.value, near):
        return replace(state, open=Fall(state.step, step, level, min(state.level), (value,), (state.rate, rate)))
    since = 0 if low else state.since_low + 1
    return replace(state, level=(*state.level, value)[-ROWS:], step=step, rate=rate, since_low=since)


def _follow(state: Falls, fall: Fall, value: float, step: int, rate: float) -> Falls:
    """Take a row after a fall: while it is low the fall stands; that it never grows is another matter."""
    after = (*fall.after, value)
    limit = HELD.value * fall.level
    if len(fall.grown) == 0:
        limit = min(fall.lowest, limit)  # growth begins below every row before: no gap of the log, however long
    if not value < limit or len(after) > ROWS:
        return replace(state, open=None, level=(*state.level, *after)[-ROWS:], step=step, rate=rate, since_low=0)
    return replace(state, open=replace(fall, after=after, rates=(*fall.rates, rate)), step=step, rate=rate)


def _settle(state: Falls, period: int | None) -> Falls:
    """Close a fall that grows; what follows is measured against another reference and gives a level of its own."""
    fall = state.open
    if fall is None or len(fall.grown) < GROWN:
        return state
    state = replace(state, open=None, level=fall.after, since_low=QUIET)
    if period is not None and is_at_multiple(fall, period):
        return replace(state, planned=state.planned + 1)
    return replace(state, found=(*state.found, fall)[:KEPT])


def _median(values: tuple[float, ...]) -> float:
    ordered, half = sorted(values), len(values) // 2
    return 0.5 * (ordered[half - 1] + ordered[half])  # their number is even


def is_at_multiple(fall: Fall, period: int) -> bool:
    """True when a multiple of the period lies between the rows of the fall, or one row beside them."""
    slack = fall.at - fall.before
    return period > 0 and (fall.at + slack) // period > (fall.before - slack - 1) // period


FALLS = Fold(Falls(), _step, needs=("kl_ref",))
