"""The runs that the page shows, read in the background and read on when their files change.

One thread reads, one run after the other, so that a folder of growing runs costs a bounded share of one core: a run is
due again REST times the seconds after it last took to read. What was counted of its rollouts and examined of its steps
is kept while a run grows.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from rlvitals.check import Verdict
from rlvitals.diagnosis import Diagnosis
from rlvitals.errors import InputError, Problem
from rlvitals.ingest.trajectories import Count
from rlvitals.live.again import Again
from rlvitals.live.web.series import Curves
from rlvitals.schema import Run

POLL_SECONDS = 1.0  # between two looks at the files
FIND_SECONDS = 5.0  # between two looks for new runs
REST = 4.0  # seconds of rest per second of reading: reading takes at most a fifth of one core
MAX_RUNS = 500  # shown at once; more are counted and said
MAX_FILES = 5000  # looked at per run to see whether it changed
GROWING = 600.0  # seconds without a change after which nothing is kept of a run but its diagnosis
FIRST_TEXT = 0.5  # seconds of reading text the first time that a growing run is read (convention)
TEXT_SHARE = 0.2  # share of the time that reading text of growing runs may take, over all of them (convention)
ID_LENGTH = 10  # hex digits of a run's address
ORDER = (Verdict.STOP, Verdict.ACT, Verdict.WATCH, Verdict.CANNOT_SAY, Verdict.HEALTHY)

Place = tuple[str, Path]  # name shown, file or directory
Fingerprint = tuple[tuple[str, int, int], ...]  # path, bytes, mtime in ns


@dataclass(frozen=True)
class Shown:
    """One run as it was last read.

    Attributes:
        id: its address, from its path alone.
        revision: how often it was read; 0 = not yet.
        changed: time of its newest file, seconds since 1970; 0 where unknown.
        problems: why it can't be read; the last diagnosis stays beside them.
    """

    id: str
    name: str
    path: Path
    revision: int = 0
    changed: float = 0.0
    diagnosis: Diagnosis | None = None
    problems: tuple[Problem, ...] = ()

    @cached_property
    def curves(self) -> Curves | None:
        """The series of its plots, prepared once per revision; None while there is nothing to plot."""
        return Curves(self.diagnosis) if self.diagnosis is not None and self.diagnosis.run is not None else None


@dataclass
class _State:
    """What the reading thread remembers of one run."""

    fingerprint: Fingerprint = ()
    due: float = 0.0  # monotonic seconds
    again: Again = field(default_factory=Again)


class Shelf:
    """The runs of the page.

    Args:
        find: returns the runs there are now, by name and path.
        read: reads one of them, its rollouts counted as it is told; raises InputError.
    """

    def __init__(self, find: Callable[[], Iterable[Place]], read: Callable[[Path, Count], Run]) -> None:
        self._find, self._read = find, read
        self._shown: dict[str, Shown] = {}
        self._states: dict[str, _State] = {}
        self._find_due = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.revision = 0  # grows with every change of any run
        self.left_out = 0  # runs beyond MAX_RUNS
        self.find_runs()

    def start(self) -> None:
        """Start reading in the background."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._loop, name="rlvitals-serve", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop reading; a read in progress ends with the process."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=2.0)
            self._thread = None

    def get(self, id: str) -> Shown | None:
        return self._shown.get(id)

    def all(self) -> tuple[Shown, ...]:
        """Return the runs, what needs a move first, then by name."""
        return tuple(sorted(self._shown.values(), key=lambda s: (_rank(s), s.name)))

    @property
    def waiting(self) -> int:
        """How many runs were not read yet."""
        return sum(1 for s in self._shown.values() if s.revision == 0)

    def find_runs(self) -> None:
        """Look for runs that came or went."""
        found = {run_id(path): (name, path) for name, path in self._find()}
        self.left_out = max(len(found) - MAX_RUNS, 0)
        kept = dict(list(found.items())[:MAX_RUNS])
        for key, (name, path) in kept.items():
            if key not in self._shown:
                self._shown[key] = Shown(key, name, path)
                self._states[key] = _State()
                self.revision += 1
        for key in [k for k, s in self._shown.items() if k not in kept and not s.path.exists()]:
            del self._states[key], self._shown[key]
            self.revision += 1
        self._find_due = time.monotonic() + FIND_SECONDS

    def refresh(self) -> int:
        """Read every run whose files changed and that is due; return how many were read."""
        if time.monotonic() >= self._find_due:
            self.find_runs()
        done = 0
        for key, state in list(self._states.items()):
            if self._stop.is_set():
                break
            if time.monotonic() < state.due:
                continue
            now = fingerprint(self._shown[key].path)
            if self._shown[key].revision and now == state.fingerprint:
                if state.again.keeps and _quiet(now):
                    state.again.forget()
                continue
            state.fingerprint = now  # of before the read: what is written meanwhile is read the next time
            started = time.monotonic()
            self._shown[key] = self._examined(self._shown[key], now, state.again)
            self.revision += 1
            state.due = time.monotonic() + REST * (time.monotonic() - started)
            done += 1
        return done

    def _examined(self, shown: Shown, files: Fingerprint, kept: Again) -> Shown:
        again = replace(shown, revision=shown.revision + 1, changed=_changed(files), problems=())
        kept.text_share = TEXT_SHARE / max(sum(s.again.keeps for s in self._states.values()), 1)
        kept.first = math.inf if _quiet(files) else FIRST_TEXT
        try:
            found = kept.diagnosis(lambda counting: self._read(shown.path, counting))
            if _quiet(files):
                kept.forget()
            fresh = replace(again, diagnosis=replace(found, name=shown.name))
            if fresh.curves is not None:
                fresh.curves.prepare()
            return fresh
        except InputError as error:
            return replace(again, problems=error.problems)
        except Exception as error:  # one run must not hide the others
            what = f"rlvitals failed: {type(error).__name__}: {error}"
            return replace(again, problems=(Problem(what, str(shown.path)),))

    def _loop(self) -> None:
        while not self._stop.is_set():
            self.refresh()
            self._stop.wait(POLL_SECONDS)


def run_id(path: Path) -> str:
    """Return the address of a run: it says nothing about the path and can't lead to another one."""
    return hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:ID_LENGTH]


def fingerprint(path: Path) -> Fingerprint:
    """Return size and time of the files of a run, at most MAX_FILES."""
    out: list[tuple[str, int, int]] = []
    folders = [path]
    while folders and len(out) < MAX_FILES:
        here = folders.pop(0)
        try:
            if here.is_file():
                out.append(_stat(str(here), here.stat()))
                continue
            with os.scandir(here) as entries:
                for entry in sorted(entries, key=lambda e: e.name):
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(Path(entry.path))
                    elif entry.is_file():
                        out.append(_stat(entry.path, entry.stat()))
        except OSError:  # it went away between two looks
            continue
    return tuple(out[:MAX_FILES])


def _stat(path: str, stat: os.stat_result) -> tuple[str, int, int]:
    return path, stat.st_size, stat.st_mtime_ns


def _changed(files: Fingerprint) -> float:
    """Return the time of the newest file, seconds since 1970; 0 without files."""
    return max((mtime for _, _, mtime in files), default=0) / 1e9


def _quiet(files: Fingerprint) -> bool:
    """True for a run that has not grown for long."""
    return time.time() - _changed(files) > GROWING


def _rank(shown: Shown) -> int:
    if shown.diagnosis is None:
        return len(ORDER) + (0 if shown.problems else 1)
    return ORDER.index(shown.diagnosis.verdict)
