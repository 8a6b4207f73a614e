"""A run that is read and diagnosed again and again as it grows: what was counted and examined before is kept.

The diagnosis is that of reading and examining the whole run: the engine goes on from a look at which it stood before
only where all that it had seen by then stands in the run unchanged, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rlvitals.checks import CHECKS
from rlvitals.conclude import conclude
from rlvitals.diagnosis import Diagnosis
from rlvitals.engine import Engine, next_look, run_engine
from rlvitals.ingest.trajectories import Count
from rlvitals.rollouts.growing import Growing
from rlvitals.schema import Example, Run

Read = Callable[[Count], Run]
"""Reads a run as it is now, its rollouts counted as it is told."""

OPEN = 16  # last rows of which more may come: rollouts and held-out scores are written after the row of their step


class Again:
    """Reads and diagnoses one run.

    Args:
        text_share: share of the time that reading text of new rollouts may take; see `Growing`.
        first: seconds that reading text may take the first time.
    """

    def __init__(self, *, text_share: float = math.inf, first: float = math.inf) -> None:
        self.text_share, self.first = text_share, first
        self._growing: Growing | None = None
        self._engine: Engine | None = None  # as it stood at a look, with the run that it had taken
        self._run: Run | None = None

    def diagnosis(self, read: Read) -> Diagnosis:
        """Read the run and diagnose it. Raises InputError for what cannot be read."""
        if self._growing is None:
            self._growing = Growing(text_share=self.text_share, first=self.first)
        self._growing.text_share = self.text_share
        run = read(self._growing.count)
        begun = self._engine.fork() if self._engine is not None and self._stands_in(run) else None
        if begun is None:
            self._engine = None
        self._run = run
        last = _last_look(run.rows - OPEN)

        def keep(engine: Engine) -> None:
            if engine.store.n == last:
                self._engine = engine.fork()

        engine = run_engine(run, CHECKS, keep, begun)
        return conclude(engine.examine(), CHECKS, name=run.name, run=run)

    @property
    def keeps(self) -> bool:
        """True while something is kept from before."""
        return self._growing is not None

    def forget(self) -> None:
        """Let go of what is kept: the run no longer grows."""
        self._growing = self._engine = self._run = None

    def _stands_in(self, run: Run) -> bool:
        """True when everything that the kept engine has seen stands in a run unchanged."""
        assert self._engine is not None  # only asked of one that is there
        before, rows, until = self._run, self._engine.store.n, self._engine.store.last_step
        if before is None or run.rows < rows or tuple(run.columns) != tuple(before.columns):
            return False
        same = (run.config, run.trainer, run.settings, run.segments, run.audits)
        if same != (before.config, before.trainer, before.settings, before.segments, before.audits):
            return False
        if not np.array_equal(run.step[:rows], before.step[:rows]):
            return False
        if not all(_same(run.columns[n][:rows], column[:rows]) for n, column in before.columns.items()):
            return False
        return _seen(run, until) == _seen(before, until) and _shown_alike(run, before, until)


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.array_equal(a, b, equal_nan=True))


def _seen(run: Run, until: int) -> tuple[object, ...]:
    """Return the held-out scores and events up to a step, as an engine takes them."""
    scores = [
        (name, int(step), float(score), repr(float(stderr)), held.items, held.metric)
        for name, held in run.evals.items()
        for step, score, stderr in zip(held.step, held.score, held.stderr, strict=True)
        if step <= until and math.isfinite(score)
    ]
    return tuple(scores), tuple(e for e in run.events if e.step is None or e.step <= until)


def _shown_alike(run: Run, before: Run, until: int) -> bool:
    """True when both hold the same examples up to a step, as far back as the newer one still keeps any."""
    new, old = ([e for e in getattr(r.rollouts, "examples", ()) if e.step <= until] for r in (run, before))
    first = new[0].step if new else 0
    return [_comparable(e) for e in new] == [_comparable(e) for e in old if e.step >= first]


def _comparable(example: Example) -> Example:
    return replace(example, reward=0.0) if math.isnan(example.reward) else example  # NaN equals nothing


def _last_look(rows: int) -> int:
    """Return the last scheduled look at or before so many rows, 0 where there is none."""
    at, after = 0, next_look(0)
    while after <= rows:
        at, after = after, next_look(after)
    return at


__all__ = ["Again", "Read"]
