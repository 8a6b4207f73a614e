"""Whose logs a folder holds: those of one run, or of several that must not be mixed.

A folder with a log of its own is one run, and what lies below it counts to the nearest folder that has a log. A folder
whose log lies deeper is a set of runs where two logs of one kind begin at the same steps and tell other rewards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from rlvitals.errors import Problem, SeveralRuns
from rlvitals.ingest import discover
from rlvitals.ingest.discover import Candidate
from rlvitals.ingest.logs import RICHER, Log, Rewards, equal_rewards, read_log, rewards_of, same_run
from rlvitals.ingest.segments import LONG_START

MAX_NAMED = 6  # runs that the error names
MIN_OTHER = 0.1  # share of common steps with another reward from which two logs are not one run's (convention)
# Beside the kind of the log that is read; arbitrary JSON and notebooks are read only where they are that log.
_COMPARED = ("ms-swift log", "trainer state", "JSONL", "CSV", "parquet", *discover.TRACKERS, "console log")
_FILES = frozenset({"ms-swift log", "trainer state", "JSONL", "CSV", "parquet"})  # written by the same hand, exactly
_RANK = re.compile(r"(?<![a-z])(?:rank|worker|node|gpu|process|host|device|replica)[-_]?\d+")
_WORD = re.compile(r"[a-z0-9]+")
_TESTS = re.compile(r"(?:e?val|evals|evaluation|valid|validation|test|tests|heldout|held|train|training)\d*")


@dataclass(frozen=True)
class Places:
    """Folders below a run's that count to other logs than the one that is read.

    Attributes:
        others: to other runs: nothing below them is this run's.
        copies: to further logs of this run, such as the same steps in another trainer's words.
    """

    others: tuple[Path, ...] = ()
    copies: tuple[Path, ...] = ()


@dataclass(frozen=True, eq=False)
class _Track:
    """A log with rewards: its kind, its path in the directory, its folders."""

    kind: str
    place: str
    log: Log
    rewards: Rewards
    homes: tuple[Path, ...]

    @property
    def home(self) -> Path:
        return self.homes[0]


def settle(directory: Path, best: Log, logs: dict[Candidate, Log]) -> tuple[Log, Places]:
    """Return the log to read and which folders count to other logs. Raises SeveralRuns for a set of runs.

    It is `best`, or a log of the same run in another folder that holds far more. `logs` holds what was read before,
    and takes up what is read here.
    """
    tracks = _tracks(directory, best, logs)
    mine = next((track for track in tracks if track.log.files == best.files), None)
    if mine is None or len(tracks) < 2:
        return best, Places()
    runs = _joined(tracks)
    apart = [(a, b) for a, b in combinations(tracks, 2) if runs[a] != runs[b] and _other_runs(a, b)]
    own = [track for track in tracks if track.home == directory and any({track, mine} == {*pair} for pair in apart)]
    if mine.home != directory and own:  # a log of its own is the folder's, whatever kind a deeper one is of
        mine = max(own, key=lambda track: track.log.values)
    if mine.home == directory:  # one run, unless the other log lies in the same folder
        asked = [(a, b) for a, b in apart if mine in (a, b) and a.home == b.home]
    else:
        asked = [(a, b) for a, b in apart if not _within(a, b)]
        mine = _richest([track for track in tracks if runs[track] == runs[mine]], mine)
    several = {runs[track] for pair in asked if not _aborted(*pair) for track in pair}
    if several:
        raise _error(directory, tracks, runs, several)
    unlike = [track for pair in apart if runs[mine] in (runs[pair[0]], runs[pair[1]]) for track in pair]
    others = {home for track in unlike if runs[track] != runs[mine] for home in track.homes}
    copies = {home for track in tracks if runs[track] == runs[mine] for home in track.homes}
    return mine.log, Places(_below(others, mine, directory), _below(copies, mine, directory))


def _richest(copies: Sequence[_Track], mine: _Track) -> _Track:
    """Return the log file of a run in another folder that holds far more than the one chosen, else that one."""
    if mine.kind not in _FILES:
        return mine
    best = max(
        (t for t in copies if t.kind in _FILES and t.home != mine.home), default=mine, key=lambda t: t.log.values
    )
    return best if best.log.values > RICHER * mine.log.values else mine


def _tracks(directory: Path, best: Log, logs: dict[Candidate, Log]) -> list[_Track]:
    """Return the logs with rewards at any depth, a bounded number of each kind that is compared."""
    from rlvitals.rollouts.find import reader_of  # imported here: most paths of the library need no dump

    found: list[_Track] = []
    for kind, groups in discover.candidates(directory, every_level=True).items():
        if kind not in _COMPARED and best.files not in groups:
            continue
        for files in groups[: discover.MAX_CANDIDATES]:
            if files[0].is_file() and reader_of(files[0]) is not None:
                continue  # a dump of rollouts, of which a run may have several
            log = logs.get(files) or read_log(files)
            if log is None:
                continue
            logs[files] = log
            rewards = [r for table in log.tables if (r := rewards_of(table)) is not None] if log.values else []
            if rewards:
                longest = max(rewards, key=lambda r: r[0].size)
                homes = tuple(dict.fromkeys(discover.home_of(path) for path in files))
                found.append(_Track(kind, files[0].relative_to(directory).as_posix().lower(), log, longest, homes))
    return found


def _joined(tracks: Sequence[_Track]) -> dict[_Track, int]:
    """Return which run each log is of: logs with the same rewards, and those of one folder unless they differ."""
    runs = {track: number for number, track in enumerate(tracks)}
    for a, b in combinations(tracks, 2):
        together = a.home == b.home and not _other_runs(a, b)
        if together or (same_run(a.rewards, b.rewards) and not _unlike(a, b)):
            old, new = runs[b], runs[a]
            runs = {track: new if number == old else number for track, number in runs.items()}
    return runs


def _unlike(a: _Track, b: _Track) -> bool:
    """True when two logs tell other rewards of the same steps: often, or of the last ones, after they parted."""
    same = equal_rewards(a.rewards, b.rewards)
    if not same.size:
        return False
    return float(same.mean()) < 1.0 - MIN_OTHER or not bool(same[-3:].any())


def _other_runs(a: _Track, b: _Track) -> bool:
    """True when two logs of one kind are of two runs: not two sinks, parts, ranks or starts of one."""
    if a.home == b.home:
        comparable = a.kind == b.kind and _keys(a) == _keys(b)
    else:
        comparable = a.kind == b.kind or {a.kind, b.kind} <= _FILES
    return comparable and not _parts_of_one(a, b) and _unlike(a, b) and not (_later(a, b) or _later(b, a))


def _keys(track: _Track) -> frozenset[str]:
    return frozenset().union(*(table.keys() for table in track.log.tables))


def _later(a: _Track, b: _Track) -> bool:
    """True when `a` begins well within `b`: a restart from a checkpoint, no run of its own."""
    return int(np.count_nonzero(b.rewards[0] < a.rewards[0].min())) >= LONG_START


def _aborted(a: _Track, b: _Track) -> bool:
    """True when one of them is but the aborted start of what the other is about."""
    fewer, more = sorted(track.rewards[0].size for track in (a, b))
    return fewer < LONG_START and 2 * fewer < more


def _within(a: _Track, b: _Track) -> bool:
    """True when one log's folder lies below the other's: then it counts to that one's run."""
    return a.home != b.home and (a.home.is_relative_to(b.home) or b.home.is_relative_to(a.home))


def _parts_of_one(a: _Track, b: _Track) -> bool:
    """True when the names tell two ranks of a job, or training from evaluation."""
    if _RANK.sub("#", a.place) == _RANK.sub("#", b.place):
        return True
    return any(_TESTS.fullmatch(word) for word in {*_WORD.findall(a.place)} ^ {*_WORD.findall(b.place)})


def _below(homes: Iterable[Path], mine: _Track, directory: Path) -> tuple[Path, ...]:
    """Return the folders that neither hold the log that is read nor are the directory itself."""
    return tuple(
        sorted(h for h in set(homes) if h != directory and not any(own.is_relative_to(h) for own in mine.homes))
    )


def _error(directory: Path, tracks: Sequence[_Track], runs: Mapping[_Track, int], named: set[int]) -> SeveralRuns:
    """Return the error that names the runs of a set, each by the highest path that holds no other one."""
    paths = tuple(sorted({_named(directory, tracks, runs, run) for run in named}))
    shown = ", ".join(path.relative_to(directory).as_posix() for path in paths[:MAX_NAMED])
    more = f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
    hint = f"Name one of them, such as {paths[0]}, or see all with: rlvitals check --each {directory}"
    return SeveralRuns(
        paths, Problem(f"the folder holds {len(paths)} runs", str(directory), shown + more, "one run", hint)
    )


def _named(directory: Path, tracks: Sequence[_Track], runs: Mapping[_Track, int], run: int) -> Path:
    """Return the highest folder that holds logs of this run alone, the log itself where its folder has others."""
    own = [track for track in tracks if runs[track] == run]
    foreign = [home for track in tracks if runs[track] != run for home in track.homes]
    path = own[0].home
    if any(home == path for home in foreign):
        return own[0].log.files[0]
    while path.parent != directory and path != directory and not any(h.is_relative_to(path.parent) for h in foreign):
        path = path.parent
    return path
