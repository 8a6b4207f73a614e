"""Rollouts that come as lines of a stream and not as a file: folded like any dump, and read as a step log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rlvitals.ingest.table import RawTable
from rlvitals.ingest.trajectories import steps_table
from rlvitals.rollouts.fold import Folded, fold, whole_steps
from rlvitals.rollouts.grouping import Grouper
from rlvitals.rollouts.readers import generic
from rlvitals.rollouts.readers.base import Head, Request
from rlvitals.rollouts.readers.records import Table
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Note

CHUNK = 20_000  # rollouts that are folded together


def is_rollout(row: Mapping[str, object]) -> bool:
    """True for a record with a step, a reward and the text of one completion."""
    return generic.accepts(Head(Path(), "", frozenset(row), row))


class RolloutRows:
    """Collects rollouts; what was folded is kept, not the text."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.rows = 0
        self._table = Table(Request())
        self._waiting: list[Batch] = []
        self._parts: list[Folded] = []
        self._grouper = Grouper()

    def add(self, row: Mapping[str, object], line: int) -> None:
        self._table.add(generic.row(row), Path(self.source), self.rows)
        self.rows += 1
        if self._table.rows >= CHUNK:
            self._fold(last=False)

    def _fold(self, *, last: bool) -> None:
        """Fold the whole steps so far; the newest one waits for its other rollouts."""
        if self._table.rows:
            self._waiting.append(self._table.flush())
        whole = list(whole_steps(self._waiting, least=1))
        self._waiting = [] if last else whole[-1:]
        ready = whole if last else whole[:-1]
        if ready:
            self._parts.append(fold(self._grouper.add(batch) for batch in ready))

    def build(self, notes: tuple[Note, ...]) -> RawTable:
        """Return one row per step in canonical names."""
        self._fold(last=True)
        series = Folded.merge(self._parts).series() if self._parts else {}
        text = f"a rollout dump: {self.rows:,} rollouts averaged per step; {self._grouper.found()}"
        return steps_table(series, self.source, (Note(text, self.source, 0, self.rows), *notes))
