"""A run directory as trainers leave it: its richest log is read, later steps come from the others, none twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rlvitals.errors import InputError, NotATrainingRun, Problem, SeveralRuns
from rlvitals.ingest import discover, readers, registry
from rlvitals.ingest.discover import Candidate
from rlvitals.ingest.logs import RICHER, Log, is_rl, read_log, rewards_of, same_run
from rlvitals.ingest.several import Places, settle
from rlvitals.ingest.table import RawTable
from rlvitals.schema import Note

__all__ = ["Places", "is_rl", "places_in", "read_directory"]

MAX_CONSOLES = 4  # console logs of a directory that are tried as continuation
MAX_SHOWN = 6  # files that a note names


@dataclass(frozen=True)
class _More:
    """A table that adds to the one that was read, and what it adds."""

    table: RawTable
    what: str


def read_directory(directory: Path) -> tuple[list[RawTable], Note, Places]:
    """Return the tables of a directory's run, which files they came from, and what counts to other logs.

    Raises InputError, SeveralRuns where the directory is a set of runs.
    """
    found = discover.candidates(directory)
    if not found:
        raise InputError(Problem("no log found in the directory", str(directory), hint="Name the log file itself"))
    logs: dict[Candidate, Log] = {}
    best = _best_of(found, directory, logs)
    if best is None:
        _say_why(found)
        tried = ", ".join(_name(group, directory) for groups in found.values() for group in groups[:4])
        raise NotATrainingRun(
            Problem("no log with a reward or another RL metric found", str(directory), tried,
                    "the log of a GRPO or RLVR run")
        )  # fmt: skip
    best, places = settle(directory, best, logs)
    tables = list(best.tables)
    text = f"read {_name(best.files, directory)}"
    used = {best.files}
    for files in _continuations(found, best):
        log = logs.get(files) or read_log(files)
        more = _later_rows(tables, log) if log is not None else None
        if more is not None:
            text += f"; took {more.what} from {_name(files, directory)}"
            tables.append(more.table)
            used.add(files)
        elif log is not None and (configs := _settings(tables, log)):
            text += f"; took the settings from {_name(files, directory)}"
            tables[0] = replace(tables[0], facts={**tables[0].facts, "configs": configs})
            used.add(files)
    left = [_name(group, directory) for groups in found.values() for group in groups if group not in used]
    if left:
        text += f"; left out {', '.join(left[:MAX_SHOWN])}"
        text += f" and {len(left) - MAX_SHOWN} more" if len(left) > MAX_SHOWN else ""
    return tables, Note(text, str(directory)), places


def places_in(directory: Path) -> Places:
    """Return what below a directory counts to other logs than its run's, nothing below a file.

    Raises SeveralRuns for a set of runs.
    """
    if not directory.is_dir():
        return Places()
    logs: dict[Candidate, Log] = {}
    try:
        best = _best_of(discover.candidates(directory), directory, logs)
    except SeveralRuns:
        raise
    except InputError:
        return Places()
    return Places() if best is None else settle(directory, best, logs)[1]


def _say_why(found: Mapping[str, list[Candidate]]) -> None:
    """Raise the InputError of a directory's only file, which tells more than that nothing was found."""
    groups = [files for kind in found.values() for files in kind]
    if len(groups) != 1:
        return
    tables = readers.read_together(groups[0])
    adapter = registry.pick(frozenset().union(*(table.keys() for table in tables)))
    if adapter.prepare is None:
        return
    for table in tables:
        adapter.prepare(table)  # refuses what is known to be no training log


def _name(files: Candidate, directory: Path) -> str:
    first = files[0].relative_to(directory).as_posix()
    first = directory.name if first == "." else first
    return first if len(files) == 1 else f"{first} and {len(files) - 1} more of its writer"


def _best_of(found: Mapping[str, list[Candidate]], directory: Path, logs: dict[Candidate, Log]) -> Log | None:
    """Return the log to read: the first kind that has RL metrics, unless a tracker or another log holds far more.

    A tracker repeats a log file with fewer digits, and a console repeats a tracker with fewer still. `logs` collects
    what was read on the way.
    """
    best: Log | None = None
    tracked = False  # whether `best` is a tracker
    for kind, groups in found.items():
        tracker = kind in discover.TRACKERS
        if best is not None and not tracker and not tracked:
            continue  # log files of another kind: one is enough
        if len(groups) > discover.MAX_CANDIDATES:
            if best is not None:
                continue
            raise InputError(
                Problem(f"the directory holds {len(groups)} files of kind {kind}", str(directory), expected="one run",
                        hint="Name one of them, or check each with: rlvitals check --each DIR")
            )  # fmt: skip
        log = _richest(groups, logs)
        if log is not None and (best is None or log.values > RICHER * best.values):
            best, tracked = log, tracker
    return best


def _richest(groups: Sequence[Candidate], logs: dict[Candidate, Log]) -> Log | None:
    """Return the candidate with most values that has RL metrics."""
    best: Log | None = None
    for files in groups:
        log = read_log(files)
        if log is None:
            continue
        logs[files] = log
        if log.values and (best is None or log.values > best.values):
            best = log
    return best


def _continuations(found: Mapping[str, list[Candidate]], best: Log) -> list[Candidate]:
    """Return the logs that may go on after the best one's last step: trackers, then the consoles if they are few."""
    tracked = [files for kind in discover.TRACKERS for files in found.get(kind, [])]
    consoles = found.get("console log", [])
    if len(consoles) > MAX_CONSOLES or best.files in consoles:
        consoles = []
    return [files for files in [*tracked, *consoles] if files != best.files][: discover.MAX_CANDIDATES]


def _later_rows(mine: Sequence[RawTable], log: Log) -> _More | None:
    """Return the table of a log that shows the same run and goes on after its last step, or tells how it ended."""
    own = next((axes for table in mine if (axes := rewards_of(table)) is not None), None)
    if own is None:
        return None
    last = max(float(axes[0].max()) for table in mine if (axes := rewards_of(table)) is not None)
    ended = any(table.events for table in mine)
    for table in log.tables:
        their = rewards_of(table)
        later = their is not None and float(their[0].max()) > last
        if their is None or not (later or (table.events and not ended)):
            continue
        if same_run(own, their):
            return _More(table, "later steps" if later else "the ending")
    return None


def _settings(mine: Sequence[RawTable], log: Log) -> Mapping[str, object]:
    """Return the settings that a tracker keeps of the run that was read, where that log has none of its own."""
    if any(table.facts.get("configs") for table in mine):
        return {}
    own = next((axes for table in mine if (axes := rewards_of(table)) is not None), None)
    for table in log.tables:
        configs, their = table.facts.get("configs"), rewards_of(table)
        if isinstance(configs, Mapping) and own is not None and their is not None and same_run(own, their):
            return configs
    return {}
