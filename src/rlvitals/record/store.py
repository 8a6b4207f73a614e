"""The run record on disk: one sqlite file beside the run, safe against a kill and against two writers at once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from rlvitals.errors import InputError, Problem
from rlvitals.record.entry import Entry, Fix, Outcome

FOLDER = ".rlvitals"
FILE = "record.sqlite"
WAIT_SECONDS = 10.0  # a second writer waits this long for the first (convention)
MAX_LEVELS = 3  # folders above and below a run in which records of its siblings are looked for (convention)
MAX_RECORDS = 200  # record files that are opened in one search (convention)
VERSION = 1

_CREATE = """
CREATE TABLE IF NOT EXISTS entries (
  id INTEGER PRIMARY KEY AUTOINCREMENT, "when" TEXT NOT NULL, run TEXT NOT NULL, task TEXT NOT NULL,
  model TEXT NOT NULL, trainer TEXT NOT NULL, verdict TEXT NOT NULL, "check" TEXT NOT NULL, finding TEXT NOT NULL,
  headline TEXT NOT NULL, onset TEXT NOT NULL, steps INTEGER NOT NULL, evidence TEXT NOT NULL, fix TEXT NOT NULL,
  checkpoint TEXT NOT NULL, versions TEXT NOT NULL, outcome TEXT NOT NULL
)"""
_COLUMNS = (
    "when", "run", "task", "model", "trainer", "verdict", "check", "finding", "headline", "onset", "steps", "evidence",
    "fix", "checkpoint", "versions", "outcome",
)  # fmt: skip


def record_file(run: Path) -> Path:
    """Return where the record of a run lies: in `.rlvitals/` in its folder, or beside its file."""
    return (run if run.is_dir() else run.parent) / FOLDER / FILE


def add(file: Path, entry: Entry) -> Entry:
    """Append an entry and return it with its number; the write is on disk or did not happen. Raises InputError."""
    names = ", ".join(f'"{name}"' for name in _COLUMNS)
    marks = ", ".join("?" * len(_COLUMNS))
    with _open(file, create=True) as db, db:
        done = db.execute(f"INSERT INTO entries ({names}) VALUES ({marks})", _row(entry))
        return replace(entry, id=int(done.lastrowid or 0))


def set_outcome(file: Path, number: int, outcome: Outcome) -> Entry:
    """Say how the fix of an entry went, and return the entry. Raises InputError for a number that is none."""
    with _open(file, create=False) as db:
        with db:
            done = db.execute("UPDATE entries SET outcome = ? WHERE id = ?", (outcome.value, number))
        if not done.rowcount:
            raise InputError(Problem("no such entry", str(file), str(number), "a number of `rlvitals record --list`"))
    return next(e for e in read(file) if e.id == number)


def read(file: Path) -> tuple[Entry, ...]:
    """Return the entries of one record, oldest first. Raises InputError for a file that is no record."""
    names = ", ".join(f'"{name}"' for name in ("id", *_COLUMNS))
    with _open(file, create=False) as db:
        return tuple(_entry(row) for row in db.execute(f"SELECT {names} FROM entries ORDER BY id"))


def find(run: Path) -> tuple[Path, ...]:
    """Return the record of a run and those of its neighbours: runs beside it, and folders above it."""
    own = record_file(run)
    folder = own.parent.parent
    found = [own, *(above / FOLDER / FILE for above in (folder, *list(folder.parents)[:MAX_LEVELS]))]
    parent = folder.parent
    if parent != folder:
        found += sorted(parent.glob(f"*/{FOLDER}/{FILE}"))[:MAX_RECORDS]
    return tuple(dict.fromkeys(f for f in found if f.is_file()))


def below(folder: Path) -> tuple[Path, ...]:
    """Return every record in a folder and up to three levels below it."""
    patterns = ["*/" * depth + f"{FOLDER}/{FILE}" for depth in range(MAX_LEVELS + 1)]
    found = (file for pattern in patterns for file in sorted(folder.glob(pattern)))
    return tuple(dict.fromkeys(found))[:MAX_RECORDS]


@contextmanager
def _open(file: Path, *, create: bool) -> Iterator[sqlite3.Connection]:
    if not create and not file.is_file():
        raise InputError(Problem("no run record", str(file), hint="Write one with: rlvitals record RUN"))
    try:
        if create:
            file.parent.mkdir(parents=True, exist_ok=True)
        # every write takes the write lock at once: a lock taken for reading first could not wait for the other writer
        with closing(sqlite3.connect(file, timeout=WAIT_SECONDS, isolation_level="IMMEDIATE")) as db:
            if create and not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'entries'").fetchone():
                db.execute("BEGIN IMMEDIATE")
                db.execute(_CREATE)
                db.execute(f"PRAGMA user_version = {VERSION}")
                db.commit()
            yield db
    except (OSError, sqlite3.Error) as error:
        expected = "a record written by rlvitals, in a folder that can be written to"
        raise InputError(Problem("cannot use the run record", str(file), str(error), expected)) from error


def _row(entry: Entry) -> tuple[object, ...]:
    fix = {"knob": entry.fix.knob, "before": entry.fix.before, "after": entry.fix.after, "text": entry.fix.text}
    plain = {"evidence": list(entry.evidence), "fix": fix, "versions": dict(entry.versions)}
    values = {name: getattr(entry, name) for name in _COLUMNS}
    values |= {name: json.dumps(value) for name, value in plain.items()} | {"outcome": entry.outcome.value}
    return tuple(values[name] for name in _COLUMNS)


def _entry(row: tuple[object, ...]) -> Entry:
    values = dict(zip(("id", *_COLUMNS), row, strict=True))
    try:
        fix = Fix(**json.loads(str(values.pop("fix"))))
        evidence = tuple(json.loads(str(values.pop("evidence"))))
        versions = dict(json.loads(str(values.pop("versions"))))
        outcome = Outcome(str(values.pop("outcome")))
    except (ValueError, TypeError) as error:
        raise InputError(Problem("broken entry in the run record", f"entry {values['id']}", str(error))) from error
    return Entry(fix=fix, evidence=evidence, versions=versions, outcome=outcome, **values)  # type: ignore[arg-type]
