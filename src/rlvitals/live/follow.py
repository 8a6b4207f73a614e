"""Follow the files of a run without touching its process: the same verdict as `check`, at the cost of what is new.

A log of lines (JSONL, CSV, console) is read on from where the last poll stopped. Formats that can't be read on (event
files, databases, several logs of one run) are read again as a whole, rarely enough that reading stays a small share of
the time. Which way is taken is decided by a test on the run itself and told.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlvitals.diagnosis import Diagnosis
from rlvitals.errors import InputError, Problem, SeveralRuns
from rlvitals.ingest import load, registry
from rlvitals.ingest.readers import sniff
from rlvitals.ingest.sources import file_source
from rlvitals.live.keys import SETTLE, Keys
from rlvitals.live.lines import KINDS, Lines, Record
from rlvitals.live.monitor import Monitor
from rlvitals.live.tail import Tail
from rlvitals.live.transitions import Transition
from rlvitals.live.trouble import Trouble, Troubles
from rlvitals.live.watcher import Watcher
from rlvitals.rollouts.growing import Growing
from rlvitals.schema import Run
from rlvitals.settings import Settings

READ_SHARE = 0.05  # share of the time that reading a whole run again may take (convention)
LOOK_AGAIN = 60.0  # seconds at least between looks for new files, checkpoints and held-out results of a tailed run
MAX_FILES = 5_000  # of a run directory that are watched for changes (convention)
LOOK_AGAIN_EARLY = 5.0  # seconds, while the run is so short that its trainer may not have shown itself
TESTED_ROWS = 50  # last rows on which reading line by line is compared with reading the whole file

State = tuple[tuple[str, int, int, int], ...]
"""Name, inode, size in bytes and time of change of each file of a run."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What one poll of a run brought.

    Attributes:
        transitions: what changed.
        waiting: why there is nothing to examine yet, "" once there is.
        rows: new log records taken.
    """

    transitions: tuple[Transition, ...] = ()
    waiting: str = ""
    rows: int = 0


class Follower:
    """One run that is followed.

    Args:
        path: a log file or a run directory, which need not exist yet.
        map, evals, settings: as for `load`.
        watchers: told of transitions as they come.
    """

    def __init__(
        self,
        path: Path,
        *,
        map: Mapping[str, str] | None = None,
        evals: Mapping[str, str | Path] | None = None,
        settings: Settings | None = None,
        watchers: tuple[Watcher, ...] = (),
    ) -> None:
        self.path = path
        self.how = ""  # how the files are read on, in words, once known
        self.run: Run | None = None
        self.monitor: Monitor | None = None
        self._map, self._evals, self._settings, self._watchers = dict(map or {}), dict(evals or {}), settings, watchers
        self._troubles = Troubles()
        self._growing = Growing()
        self._tail: Tail | None = None
        self._lines: Lines | None = None
        self._state: State | None = None
        self._next_load = 0.0
        self._problem: Problem | None = None  # why the run could not be read, the last time
        self._overlap = False  # the next lines may stand in the run as it was read

    def poll(self) -> Followed:
        """Read what is new; never raises for what a half-written log holds, SeveralRuns where there is no one run."""
        now = time.monotonic()
        if self._tail is None:
            if now >= self._next_load:
                return self._load(now)
            return Followed(waiting="" if self.monitor is not None else self._why_waiting())
        found = self._poll_tail()
        if self._lost_track or now >= self._next_load:
            again = self._load(now)
            return Followed((*found.transitions, *again.transitions), "", found.rows)
        return found

    def diagnosis(self) -> Diagnosis | None:
        """Return the diagnosis of everything read so far, None before the first row."""
        return None if self.monitor is None else self.monitor.diagnosis()

    def finish(self) -> Diagnosis | None:
        """Read the run as a whole once more and return its diagnosis: exactly what `check` says of these files."""
        self._state = None
        self._load(time.monotonic(), whole=True)
        return self.diagnosis()

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """What could not be read, counted."""
        return (*self._troubles.all, *(self.monitor.troubles if self.monitor is not None else ()))

    def close(self) -> None:
        """Let go of the files."""
        if self._tail is not None:
            self._tail.close()
        if self.monitor is not None:
            self.monitor.close()

    def _load(self, now: float, *, whole: bool = False) -> Followed:
        """Read the run as a whole and take it over, if anything about its files has changed."""
        if not self.path.exists():
            return Followed(waiting="" if self.monitor is not None else self._why_waiting())
        state = _state_of(self.path)
        if state == self._state and not self._lost_track:
            self._next_load = now + LOOK_AGAIN if self._tail is not None else now
            return Followed(waiting="" if self.monitor is not None else self._why_waiting())
        begin = time.monotonic()
        try:
            counting = None if whole else self._growing.count
            run = load(self.path, map=self._map, evals=self._evals, settings=self._settings, counting=counting)
        except InputError as error:
            if isinstance(error, SeveralRuns) and self.monitor is None:
                raise  # waiting would never end
            took = time.monotonic() - begin
            self._next_load = now + took / READ_SHARE
            self._state = state
            self._problem = error.problems[0]
            return Followed(waiting="" if self.monitor is not None else self._why_waiting())
        return self._take(run, state, begin, now)

    @property
    def _lost_track(self) -> bool:
        return self.monitor is not None and self.monitor.lost_track

    def _why_waiting(self) -> str:
        if not self.path.exists():
            return f"{self.path} does not exist yet"
        return str(self._problem) if self._problem is not None else f"{self.path} holds no step yet"

    def _take(self, run: Run, state: State, begin: float, now: float) -> Followed:
        """Start over with a run that was read as a whole: what its keys mean may have become clear only now."""
        before, old = self.run, self.monitor
        off = {o.id: o.reason for o in getattr(run.settings, "off", ())}
        self.monitor = Monitor(
            run.config, name=run.name, limits=getattr(run.settings, "thresholds", None), off=off, keeps=False,
            watchers=self._watchers, rank=0, metric_map=self._user_map(run), trainer=_known(run.trainer.name),
            keys=_keys_of(run),
        )  # fmt: skip
        if old is not None:
            self.monitor.inherit(old)
        changes = self.monitor.take_over(run)
        self.run, self._state = run, state
        if before is None or before.sources != run.sources:
            if self._tail is not None:
                self._tail.close()
            self._tail = self._lines = None
            self._choose(run, state)
        self._overlap = self._tail is not None
        again = LOOK_AGAIN if run.rows >= SETTLE else LOOK_AGAIN_EARLY
        self._next_load = now + max((time.monotonic() - begin) / READ_SHARE, again if self._tail is not None else 0.0)
        return Followed(changes, "", run.rows)

    def _user_map(self, run: Run) -> dict[str, str]:
        return {**getattr(run.settings, "map", {}), **self._map}

    def _choose(self, run: Run, state: State) -> None:
        """Decide how to read on: by lines where that gives the very rows that reading the whole file gives."""
        self.how = "read again as a whole when its files change"
        if len(run.sources) != 1:
            self.how += ": several logs make up this run"
            return
        path = Path(run.sources[0])
        kind = _kind(path)
        if kind not in KINDS:
            self.how += f": {kind or 'this kind of'} files cannot be read on line by line"
            return
        lines, tail, end = Lines(kind), Tail(path), _end_of(state, path)
        records: list[Record] = []
        while tail.at < end:
            polled = tail.poll(upto=end)
            records = [*records, *lines.records(polled.lines)][-TESTED_ROWS * 4 :]
            if not polled.lines:
                break
        why = "records span several lines" if lines.spans_lines else self._differs(run, records)
        if why:
            tail.close()
            self.how += f": {why}"
            return
        self._tail, self._lines, self.how = tail, lines, f"read on line by line ({kind})"

    def _differs(self, run: Run, records: list[Record]) -> str:
        """Return how the last records differ from the run that the whole file gave, "" when they do not."""
        keys = self._test_keys(run)
        same = 0
        for record in records[-TESTED_ROWS:]:
            step = keys.step(record)
            if step is None:
                continue
            row = keys.canonical(keys.numbers(record, step), step)
            at = int(np.searchsorted(run.step, step))
            if row.values and (at >= run.rows or run.step[at] != step):
                continue  # written after the whole file was read, or replaced
            odd = _odd(run, at, row.values)
            if odd:
                return f"{odd} of step {step} depends on the rest of the file"
            if any(n not in run.evals or step not in run.evals[n].step for n in row.evals):
                return "held-out scores depend on the rest of the file"
            same += bool(row.values)
        return "" if same else "its lines carry no step"

    def _test_keys(self, run: Run) -> Keys:
        return Keys(_known(run.trainer.name), run.config, self._user_map(run), Troubles(), _keys_of(run))

    def _poll_tail(self) -> Followed:
        assert self._tail is not None  # only called while tailing
        assert self._lines is not None
        assert self.monitor is not None
        polled = self._tail.poll()
        if polled.restarted:
            self._lines.again()
            self._overlap = False
            self._troubles.note("the log was cut or written anew: read from its start", self._tail.path)
        if polled.skipped:
            self._troubles.note("lines longer than any record", self._tail.path, count=polled.skipped)
        broken = self._lines.broken
        records = self._lines.records(polled.lines)
        if self._lines.broken > broken:
            self._troubles.note("lines that are no records", self._tail.path, count=self._lines.broken - broken)
        if polled.rotated and self._stands_already(records):  # a copy that is replaced as a whole, as rsync does
            self._state = None
            return self._load(time.monotonic())
        if self._overlap and self.run is not None:
            records = self._beyond(self.run, records)
        changes: tuple[Transition, ...] = ()
        for record in records:
            changes += self.monitor.log_record(record)
        return Followed(changes, "", len(records))

    def _stands_already(self, records: list[Record]) -> bool:
        """True when a file that took the place of the followed one begins with steps that were there."""
        assert self.monitor is not None  # only called while tailing
        step = next((s for r in records if (s := self.monitor.step_of(r)) is not None), None)
        return step is not None and step <= self.monitor.last_step

    def _beyond(self, run: Run, records: list[Record]) -> list[Record]:
        """Leave out the records that the run had when it was read as a whole; from the first other one on all count."""
        keys = self._test_keys(run)
        for i, record in enumerate(records):
            step = keys.step(record)
            if step is not None and not _has(run, step, keys.canonical(keys.numbers(record, step), step).values):
                self._overlap = False
                return records[i:]
        return []


def _odd(run: Run, at: int, values: Mapping[str, float]) -> str:
    """Return the first metric whose value is another one in row `at` of a run, "" when all agree."""
    for name, value in values.items():
        column = run.columns.get(name)
        if column is None or not math.isclose(value, float(column[at]), rel_tol=1e-9, abs_tol=1e-12):
            return name
    return ""


def _has(run: Run, step: int, values: Mapping[str, float]) -> bool:
    at = int(np.searchsorted(run.step, step))
    return at < run.rows and run.step[at] == step and not _odd(run, at, values)


def _known(trainer: str) -> str:
    return trainer if registry.by_name(trainer) is not None else ""


def _keys_of(run: Run) -> list[str]:
    """Return the raw keys of a run as far as it tells them; they decide what a trainer's keys mean."""
    keys = [key for p in run.provenance.values() for key in p.key.split(", ") if key]
    return [*keys, *(u.key for u in run.unrecognised), *(e.key for e in run.evals.values() if e.key)]


def _kind(path: Path) -> str:
    try:
        source = file_source(path)
        return "" if source.compressed() else sniff(source)
    except (InputError, OSError):
        return ""


def _end_of(state: State, path: Path) -> int:
    """Return how long a file was when its run's state was noted, in bytes; 0 when it was not there."""
    return next((size for name, _, size, _ in state if name == str(path)), 0)


def _state_of(path: Path) -> State:
    """Return what tells whether any file of a run has changed: names, sizes and times, bounded in number."""
    out: list[tuple[str, int, int, int]] = []
    todo = [path]
    while todo and len(out) < MAX_FILES:
        at = todo.pop(0)
        try:
            if at.is_dir():
                todo += [entry for entry in sorted(at.iterdir()) if not (entry.is_symlink() and entry.is_dir())]
                continue
            found = at.stat()
        except OSError:
            continue
        out.append((str(at), found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(out)
