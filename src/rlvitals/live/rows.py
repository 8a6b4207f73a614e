"""The rows of a live run in whatever order they come: new steps, more of a step, late rows, rewinds, a restart.

Keeps three things in step: the file of what was logged, the engine's course, and the row that isn't whole yet.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rlvitals.engine import Engine, is_look
from rlvitals.ingest.segments import reason_of
from rlvitals.live import history
from rlvitals.live.course import Course, Row, Score, before, feed_row, measured
from rlvitals.live.files import RowFile
from rlvitals.live.keys import SETTLE, Keys
from rlvitals.live.trouble import Troubles
from rlvitals.schema import Event, Run, Segment

MAX_EVENTS = 5_000  # checkpoints and resumes remembered (convention)
MAX_REWINDS = 256  # steps that go back; a log that does so more often has no single order (convention)


class Rows:
    """Takes values by step.

    Args:
        make: builds an engine without rows.
        path: file that keeps what was logged; None for a temporary one.
        done: told of each whole step: step, values, whether the engine looked after it.
        keeps: False where the rows are kept elsewhere, in a log that is followed; then a rewind beyond the course's
            memory sets `lost_track` and waits for `take_over`.
    """

    def __init__(
        self,
        make: Callable[[], Engine],
        keys: Keys,
        troubles: Troubles,
        path: Path | None,
        done: Callable[[int, Mapping[str, float], bool], None],
        *,
        keeps: bool,
    ) -> None:
        self._make, self._keys, self._noted, self._path, self._done = make, keys, troubles, path, done
        self._keeps = keeps
        self._file: RowFile | None = None
        self.pending: Row | None = None
        self.segments: tuple[Segment, ...] = ()
        self.events: tuple[Event, ...] = ()
        self.audits: tuple[object, ...] = ()
        self._adopted: tuple[Segment, ...] = ()  # of a run that was taken over: they are in no file of ours
        self.lost_track = False
        self.course = Course(self._fresh)

    @property
    def engine(self) -> Engine:
        return self.course.engine

    @property
    def empty(self) -> bool:
        return self.pending is None and self.engine.store.n == 0 and not self.engine.evals

    @property
    def last_step(self) -> int:
        return self.course.last_step if self.pending is None else self.pending[0]

    def begin(self) -> bool:
        """Open the file at the first use and take up the rows in it; return whether this was that use."""
        if self._file is not None or not self._keeps:
            return False
        self._file = RowFile(self._path, self._noted)
        if self._path is not None:
            for _, line in itertools.islice(self._file.places(), SETTLE):  # as they taught it the first time
                self._keys.learn(self._keys.numbers(history.raw_of(line), 0))
            self.rebuild()
            for event in history.survey(self._file).events:
                self.remember(event)
        return True

    def row(self, step: int) -> Mapping[str, float] | None:
        """Return what is known of a recent step, None when it isn't among them."""
        return self.pending[1] if self.pending is not None and self.pending[0] == step else self.course.row(step)

    def take(self, step: int, values: dict[str, float], line: Mapping[str, object]) -> None:
        """Take the values of a call and keep its line."""
        if self.lost_track:
            return
        last = self.last_step
        if not values:
            self.write(line, step)  # held-out scores, and keys that nothing is known of
        elif step > last:
            self.write(line, step)
            self.flush()
            self.pending = (step, values)
        elif self.pending is not None and step == last:
            self.write(line, step)
            self.pending[1].update(values)
        elif self._is_late(step, values):
            self.write(line, step)
            self._amend(step, values)
        elif len(self.segments) >= MAX_REWINDS:
            self._noted.note(f"a step went back more than {MAX_REWINDS} times: such rows are left out", line, step)
        else:
            self._rewind(step, last)
            self.write(line, step)
            self.pending = (step, values)

    def flush(self) -> None:
        """Hand the pending row, which is whole now, to the engine."""
        if self.pending is None:
            return
        (step, values), self.pending = self.pending, None
        self.engine.trainer = self._keys.info
        looked = self.course.feed(step, values)
        self._done(step, values, looked)

    def snapshot(self) -> Engine:
        """Return the engine as it would stand with the pending row taken in; the rows stay as they are."""
        if self.pending is None:
            return self.engine
        engine = self.engine.fork()
        feed_row(engine, *self.pending)
        if is_look(engine.store.n):
            engine.look()
        return engine

    def write(self, line: Mapping[str, object], step: int | None) -> None:
        """Keep one line."""
        if self._file is not None:
            self._file.append(line, step)

    def remember(self, event: Event) -> None:
        """Take note of an event."""
        if len(self.events) >= MAX_EVENTS:
            self._noted.note(f"more than {MAX_EVENTS} events: the oldest are forgotten", event.detail, event.step)
        self.events = (*self.events, event)[-MAX_EVENTS:]
        self.engine.events = self.events

    def adopt(self, run: Run) -> None:
        """Take over what is known of a run beside its rows: segments, events, trainer and audits."""
        self.segments = self._adopted = run.segments
        self.events = run.events
        self._keys.info = run.trainer
        self.audits = run.audits
        self.engine.segments, self.engine.events, self.engine.trainer = self.segments, self.events, run.trainer
        self.engine.audits = self.audits

    def audited(self, audits: tuple[object, ...]) -> None:
        """Take the records of audits that lie beside the run."""
        self.audits = self.engine.audits = audits

    def take_over(self, run: Run) -> None:
        """Start over with the rows and held-out scores of a run that was read from its files."""
        self.lost_track = False
        self.adopt(run)
        scores: dict[tuple[str, int], Score] = {
            (name, int(s)): (name, int(s), float(v), float(e), held.items, held.metric)
            for name, held in run.evals.items()
            for s, v, e in zip(held.step, held.score, held.stderr, strict=True)
            if math.isfinite(v)
        }
        self.pending = self.course.rebuild(_rows_of(run), scores, run.rows)

    def rebuild(self) -> None:
        """Feed the engine again with every row that stands, under what the keys mean now."""
        if self._file is None:
            return
        found = history.survey(self._file)
        if found.broken:
            self._noted.note("lines of the monitor's file that cannot be read", self._file.path, None, found.broken)
        scores: dict[tuple[str, int], Score] = dict(found.scores)

        def canonical(step: int, raw: Mapping[str, Any]) -> Mapping[str, float]:
            row = self._keys.canonical(self._keys.numbers(raw, step), step)
            for name, score in row.evals.items():
                scores[name, step] = (name, step, score, math.nan, 0, row.kinds[name])
            return row.values

        self.segments = (*self._adopted, *found.segments)
        rows = history.rows_of(self._file, found, canonical)
        self.pending = self.course.rebuild(rows, scores, len(found.places))
        self.engine.trainer = self._keys.info

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _is_late(self, step: int, values: Mapping[str, float]) -> bool:
        """True for a recent step that is there and gets metrics that it lacks: a second writer, not a restart."""
        row = self.course.row(step)
        return row is not None and self.course.reaches(step) and measured(row).isdisjoint(measured(values))

    def _amend(self, step: int, values: Mapping[str, float]) -> None:
        after = self.course.since(step)
        self.course.back_to(step)
        for at, row in after:
            self.course.feed(at, {**row, **values} if at == step else row)

    def _rewind(self, step: int, last: int) -> None:
        """Close the rows at or after `step` as a segment; `last` is the last step so far."""
        near = self.course.reaches(step)
        if not near and not self._keeps:
            self.lost_track = True
            return
        gone = [at for at, _ in self.course.since(step)]
        if not near and self._file is not None:
            gone = [at for at in history.survey(self._file).places if at >= step]
        elif self.pending is not None:
            gone.append(self.pending[0])
        whole = step <= max(self.engine.store.first_step, 0) or self.engine.store.n == 0
        segment = Segment(min(gone, default=step), last, len(gone), step, reason_of(whole, len(gone), step))
        self.segments = (*self.segments, segment)
        self.pending = None
        self.engine.segments = self.segments
        self.remember(history.resume_of(segment))
        self.write({"step": step, history.REWIND: history.rewind_line(segment)}, step)
        if near:
            evals = self.engine.evals
            self.engine.evals = {n: kept for n, held in evals.items() if (kept := before(held, step)).step.size}
            self.course.back_to(step)
            return
        self.rebuild()
        if self.pending is not None:  # whole long ago: the row that comes now is a later one
            self.course.feed(*self.pending)
            self.pending = None

    def _fresh(self) -> Engine:
        engine = self._make()
        engine.segments, engine.events, engine.audits = self.segments, self.events, self.audits
        return engine


def _rows_of(run: Run) -> Iterator[Row]:
    """Yield the rows of a run without what was not logged."""
    names = list(run.columns)
    for i, step in enumerate(run.step.tolist()):
        values = {name: float(run.columns[name][i]) for name in names}
        yield step, {name: value for name, value in values.items() if not math.isnan(value)}
