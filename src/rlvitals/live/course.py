"""The engine of a live run with a short memory: it can go back a few rows without reading the run again.

Rows come one at a time. Every `EVERY` rows a copy of the engine's state is kept, of which the last few serve a step
that comes late or is logged again; only a rewind beyond them needs the whole history.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rlvitals.engine import Engine, is_look
from rlvitals.schema import NONFINITE_PREFIX
from rlvitals.view import Held

EVERY = 8  # rows between kept states: a copy costs as much as a few rows (docs/measurements.md, "Live monitor")
FAR = 64  # rows between the far ones
MAX_CHUNK = 512  # rows fed at once when a run is rebuilt

Row = tuple[int, dict[str, float]]
Score = tuple[str, int, float, float, int, str]


class Course:
    """The rows of the current series, fed to an engine.

    Args:
        make: builds an engine without rows, with the segments and events known by then.
    """

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self.engine = make()
        self._states: list[Engine] = []
        self._rows: deque[Row] = deque()

    @property
    def last_step(self) -> int:
        return self.engine.store.last_step

    def feed(self, step: int, values: Mapping[str, float]) -> bool:
        """Take one row; return whether it was looked at."""
        feed_row(self.engine, step, values)
        self._rows.append((step, dict(values)))
        rows = self.engine.store.n
        looked = is_look(rows)
        if looked:
            self.engine.look()
        if rows % EVERY == 0:
            self._keep()
        return looked

    def row(self, step: int) -> Mapping[str, float] | None:
        """Return the row of a recent step, None when it isn't among them."""
        return next((values for at, values in reversed(self._rows) if at == step), None)

    def reaches(self, step: int) -> bool:
        """True when the state before a step is kept, or the run is so short that it can be fed again."""
        return self._state(step) is not None or (bool(self._rows) and self._rows_from_start())

    def since(self, step: int) -> list[Row]:
        """Return the recent rows at or after a step."""
        return [row for row in self._rows if row[0] >= step]

    def back_to(self, step: int) -> None:
        """Forget the rows at or after a step that `reaches` allows; held-out scores are the caller's matter."""
        evals = self.engine.evals
        state = self._state(step)
        segments, events, trainer = self.engine.segments, self.engine.events, self.engine.trainer
        audits = self.engine.audits
        rows = list(self._rows)
        self._states = [s for s in self._states if state is not None and s.store.n <= state.store.n]
        start = -1 if state is None else state.store.last_step
        self.engine = self._make() if state is None else state.fork()
        self.engine.segments, self.engine.events, self.engine.trainer = segments, events, trainer
        self.engine.audits = audits
        self.engine.evals = dict(evals)
        self._rows = deque(row for row in rows if row[0] <= start)
        for at, values in rows:
            if start < at < step:
                self.feed(at, values)

    def rebuild(self, rows: Iterable[Row], scores: Mapping[tuple[str, int], Score], count: int) -> Row | None:
        """Start over with a whole history; return its last row, which isn't fed: it may not be whole.

        Args:
            rows: by step; read one by one, so that a long history is never held at once.
            scores: held-out scores as Engine.add_eval takes them; may grow while the rows are read.
            count: how many rows there are, at most.
        """
        trainer = self.engine.trainer
        self.engine = self._make()
        self.engine.trainer = trainer
        self._states, self._rows = [], deque()
        tail = max(count - 2 * FAR, 0)  # from here on states are kept again
        taken: set[tuple[str, int]] = set()
        chunk: list[Row] = []
        last: Row | None = None
        for row in rows:
            if last is not None:
                chunk.append(last)
            last = row
            at = self.engine.store.n + len(chunk)
            if chunk and (is_look(at) or len(chunk) >= MAX_CHUNK or at == tail):
                self._feed_chunk(chunk, scores, taken, one_by_one=at > tail)
                if at == tail:
                    self._states.append(self.engine.fork())
                chunk = []
        if chunk:
            self._feed_chunk(chunk, scores, taken, one_by_one=True)
        for key in [key for key in scores if key not in taken]:
            self.engine.add_eval(*scores[key])
        return last

    def _feed_chunk(
        self,
        chunk: list[Row],
        scores: Mapping[tuple[str, int], Score],
        taken: set[tuple[str, int]],
        *,
        one_by_one: bool,
    ) -> None:
        """Feed the rows up to a look, with the scores of their steps before it."""
        due = [key for key, score in scores.items() if key not in taken and score[1] <= chunk[-1][0]]
        for key in sorted(due, key=lambda k: scores[k][1]):
            self.engine.add_eval(*scores[key])
        taken.update(due)
        if one_by_one:
            for step, values in chunk:
                self.feed(step, values)
            return
        _feed_rows(self.engine, chunk)
        if is_look(self.engine.store.n):
            self.engine.look()

    def _rows_from_start(self) -> bool:
        return len(self._rows) == self.engine.store.n

    def _state(self, step: int) -> Engine | None:
        """Return the newest kept state whose rows are all before a step."""
        return next((s for s in reversed(self._states) if s.store.last_step < step), None)

    def _keep(self) -> None:
        self._states.append(self.engine.fork())
        near = self._states[-2:]
        far = [s for s in self._states[:-2] if s.store.n % FAR == 0][-2:]
        self._states = [*far, *near]
        oldest = self._states[0].store.last_step if len(far) == 2 else -1
        while self._rows and self._rows[0][0] <= oldest:
            self._rows.popleft()


def feed_row(engine: Engine, step: int, values: Mapping[str, float]) -> None:
    """Hand one row to an engine."""
    engine.feed(np.array([step]), tuple(values), np.array([[v] for v in values.values()]).reshape(len(values), 1))


def _feed_rows(engine: Engine, rows: Sequence[Row]) -> None:
    names = tuple(dict.fromkeys(name for _, values in rows for name in values))
    at = {name: i for i, name in enumerate(names)}
    table = np.full((len(names), len(rows)), math.nan)
    for k, (_, values) in enumerate(rows):
        for name, value in values.items():
            table[at[name], k] = value
    engine.feed(np.array([step for step, _ in rows]), names, table)


def measured(values: Mapping[str, float]) -> set[str]:
    """Return the metrics that a row holds, a value that was not finite included."""
    return {name.removeprefix(NONFINITE_PREFIX) for name in values}


def before(held: Held, step: int) -> Held:
    """Return the scores of earlier steps: those of rows that were replaced belong to other weights."""
    keep = held.step < step
    return replace(held, step=held.step[keep], score=held.score[keep], stderr=held.stderr[keep])
