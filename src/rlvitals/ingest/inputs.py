"""The paths a user names -> raw tables: files, stdin, remote files, and the richest log of a directory."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlvitals.errors import InputError, NotATrainingRun, Problem, SeveralRuns
from rlvitals.ingest import discover, readers
from rlvitals.ingest.directory import Places, is_rl, read_directory
from rlvitals.ingest.remote import WANDB_SCHEME, fetch, is_remote, shown
from rlvitals.ingest.sources import STDIN, check_head, file_source, stdin_source
from rlvitals.ingest.table import RawTable
from rlvitals.schema import Note

if TYPE_CHECKING:
    from rlvitals.ingest.trajectories import Count
    from rlvitals.rollouts.dump import Rollouts
    from rlvitals.rollouts.fold import Folded

__all__ = ["Loaded", "is_rl", "read_paths"]

COMMON_NAMES = frozenset({"trainer_state.json", "logging.jsonl", "metrics.jsonl", "metrics.csv", "console.log"})


Counted = tuple["Folded", "Rollouts"]


@dataclass(frozen=True)
class Loaded:
    """What reading the paths gave, before it is one run."""

    name: str
    tables: tuple[RawTable, ...]
    base: Path | None  # where to look for config and checkpoints
    notes: tuple[Note, ...] = ()
    dump: Counted | None = None  # rollouts that were named in place of a log, already folded
    places: Places = field(default_factory=Places)  # what below `base` counts to other logs


def read_paths(paths: Sequence[str | Path], counting: Count | None = None) -> Loaded:
    """Read every path; all problems are reported at once. Rollouts are counted by `counting`, whole when None."""
    tables: list[RawTable] = []
    notes: list[Note] = []
    errors: list[InputError] = []
    base: Path | None = None
    dump: Counted | None = None
    places = Places()
    for given in paths:
        try:
            if str(given) == STDIN:
                source = stdin_source()
                check_head(source)
                tables += readers.read(source)
                continue
            if str(given).startswith(WANDB_SCHEME):
                tables.append(_wandb_run(str(given)))
                continue
            path, select = _existing(given)
            if path.is_dir():
                first, base = base is None, base or path
                try:
                    found, note, apart = read_directory(path)
                    places = apart if first else places
                    notes.append(note)
                    tables += found
                except SeveralRuns:
                    raise
                except InputError as error:
                    table, dump = _dump_alone(path, error, counting)  # no step log: its rollouts tell what they can
                    tables.append(table)
            elif is_remote(str(given)):  # nothing lies beside the local copy
                tables += readers.read(replace(file_source(path, select), name=shown(str(given))))
            else:
                base = base or path
                source = file_source(path, select)
                check_head(source)
                counted = _dump_file(path, counting)
                if counted is None:
                    tables += readers.read(source)
                else:
                    tables.append(counted[0])
                    dump = dump or counted[1]
        except InputError as error:
            errors.append(error)
    several = [error for error in errors if isinstance(error, SeveralRuns)]
    if several and len(errors) == len(several) == 1:
        raise several[0]
    if errors:
        problems = [problem for error in errors for problem in error.problems]
        only_refused = all(isinstance(error, NotATrainingRun) for error in errors)
        raise NotATrainingRun(*problems) if only_refused else InputError(*problems)
    return Loaded(_run_name(str(paths[0])), tuple(tables), base, tuple(notes), dump, places)


def _dump_alone(directory: Path, error: InputError, counting: Count | None) -> tuple[RawTable, Counted]:
    """Return the steps of a directory that holds rollouts and no log. Raises the error of the log's reader."""
    from rlvitals.ingest.trajectories import beside, table_of

    found = beside(directory)
    if found is None or not found.files:
        raise error
    table, folded, rollouts = table_of(found) if counting is None else table_of(found, counting=counting)
    return table, (folded, rollouts)


def _dump_file(path: Path, counting: Count | None) -> tuple[RawTable, Counted] | None:
    """Return the steps of a file that holds one rollout per row, None for any other file."""
    if not {".jsonl", ".ndjson", ".parquet", ".csv"} & {suffix.lower() for suffix in path.suffixes}:
        return None
    from rlvitals.ingest.trajectories import named_dump, table_of

    found = named_dump(path)
    if found is None or found.reader.steps_elsewhere:
        return None
    table, folded, rollouts = table_of(found) if counting is None else table_of(found, counting=counting)
    return (table, (folded, rollouts)) if table.rows else None


def _run_name(first: str) -> str:
    """Return the file's or folder's name; the run folder's for a file that is called the same in every run."""
    if first == STDIN:
        return "stdin"
    if is_remote(first):
        return shown(first).rstrip("/").rpartition("/")[2]
    path = Path(first).resolve()
    if path.name not in COMMON_NAMES:
        return path.name
    return path.parent.parent.name if discover.is_checkpoint(path.parent.name) else path.parent.name


def _existing(given: str | Path) -> tuple[Path, str]:
    """Return the local path and the run named after "#", which picks one of a store's runs. Raises InputError."""
    path = Path(given).expanduser()
    if path.exists():
        return path, ""
    before, separator, select = str(given).rpartition("#")
    if is_remote(str(given)):
        return (fetch(before), select) if separator else (fetch(str(given)), "")
    if separator and Path(before).expanduser().is_file():
        return Path(before).expanduser(), select
    if path.is_symlink():
        raise InputError(Problem("a link that leads to no file", str(given), str(path.readlink())))
    siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, siblings, n=1)
    raise InputError(Problem("no such file or directory", str(given), hint=f"Nearest: {near[0]}" if near else ""))


def _wandb_run(url: str) -> RawTable:
    from rlvitals.ingest.readers.wandb_api import read_url  # imported here: only these paths need W&B's client

    return read_url(url)
