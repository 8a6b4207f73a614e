"""The paths a user names -> raw tables: files, stdin, remote files, and the richest log of a directory."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rlvitals.errors import InputError, NotATrainingRun, Problem
from rlvitals.ingest import discover, readers
from rlvitals.ingest.directory import is_rl, read_directory
from rlvitals.ingest.remote import WANDB_SCHEME, fetch, is_remote, shown
from rlvitals.ingest.sources import STDIN, check_head, file_source, stdin_source
from rlvitals.ingest.table import RawTable
from rlvitals.schema import Note

__all__ = ["Loaded", "is_rl", "read_paths"]

COMMON_NAMES = frozenset({"trainer_state.json", "logging.jsonl", "metrics.jsonl", "metrics.csv", "console.log"})


@dataclass(frozen=True)
class Loaded:
    """What reading the paths gave, before it is one run."""

    name: str
    tables: tuple[RawTable, ...]
    base: Path | None  # where to look for config and checkpoints
    notes: tuple[Note, ...] = ()


def read_paths(paths: Sequence[str | Path]) -> Loaded:
    """Read every path; all problems are reported at once."""
    tables: list[RawTable] = []
    notes: list[Note] = []
    errors: list[InputError] = []
    base: Path | None = None
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
                base = base or path
                found, note = read_directory(path)
                tables += found
                notes.append(note)
            elif is_remote(str(given)):  # nothing lies beside the local copy
                tables += readers.read(replace(file_source(path, select), name=shown(str(given))))
            else:
                base = base or path
                tables += readers.read(file_source(path, select))
        except InputError as error:
            errors.append(error)
    if errors:
        problems = [problem for error in errors for problem in error.problems]
        only_refused = all(isinstance(error, NotATrainingRun) for error in errors)
        raise NotATrainingRun(*problems) if only_refused else InputError(*problems)
    return Loaded(_run_name(str(paths[0])), tuple(tables), base, tuple(notes))


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
