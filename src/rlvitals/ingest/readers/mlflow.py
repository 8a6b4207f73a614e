"""MLflow's file store: one run folder with a file per metric (lines "timestamp value step") and per parameter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from rlvitals.errors import InputError, Problem
from rlvitals.ingest.longform import Series, rows_of, table_of
from rlvitals.ingest.readers.sqlite import with_ending
from rlvitals.ingest.sources import Source
from rlvitals.ingest.table import RawTable
from rlvitals.ingest.values import number
from rlvitals.schema import Note

MAX_FILES = 20_000  # metrics or parameters of one run
MAX_PARAM = 10_000  # bytes of a parameter that are read
MAX_LEVELS = 6  # folders in a metric's name
STATUS = {"3": "FINISHED", "4": "FAILED", "5": "KILLED"}  # source: mlflow/protos/service.proto RunStatus


def read_run(folder: Path) -> RawTable:
    """Read a run folder. Raises InputError when it holds no metric values."""
    logged: list[tuple[float, int, str, float]] = []  # timestamp, step, key, value
    bad = 0
    for key, file in _files(folder / "metrics"):
        for _, line in Source(str(file), file).lines():
            found = _value(line)
            if found is None:
                bad += bool(line.strip())
            else:
                logged.append((found[0], found[2], key, found[1]))
    if not logged:
        raise InputError(Problem("no metric values in the MLflow run", str(folder)))
    logged.sort(key=lambda row: row[0])  # stable: within a file, and so within a key, lines stay in order
    series: dict[str, tuple[list[int], list[int], list[float]]] = {}
    for i, (_, step, key, value) in enumerate(logged):
        orders, steps, values = series.setdefault(key, ([], [], []))
        orders.append(i)
        steps.append(step)
        values.append(value)
    rows = rows_of({
        key: Series(np.array(order, dtype=np.int64), np.array(step, dtype=np.int64), np.array(value))
        for key, (order, step, value) in series.items()
    })  # fmt: skip
    notes = (Note("skipped lines that are no metric values", str(folder), 0, bad),) if bad else ()
    params = {key: _text(file) for key, file in _files(folder / "params")}
    facts = {"configs": {"MLflow params": params}} if params else {}
    return with_ending(table_of([rows], str(folder), notes=notes, facts=facts), _status(folder))


def _value(line: bytes) -> tuple[float, float, int] | None:
    """Return (timestamp, value, step) of a line; old stores leave the step out."""
    parts = line.decode("utf-8", "replace").split()
    if len(parts) not in (2, 3):
        return None
    time, value, step = number(parts[0]), number(parts[1]), number(parts[2]) if len(parts) == 3 else 0.0
    if time is None or value is None or step is None or not abs(step) < 2**62:
        return None
    return (time if np.isfinite(time) else 0.0), value, int(step)


def _files(top: Path) -> Iterator[tuple[str, Path]]:
    """Yield (key, file); a key with slashes is a path of folders."""
    folders = [(top, 0)]
    found = 0
    while folders:
        folder, level = folders.pop(0)
        try:
            entries = sorted(folder.iterdir())
        except OSError:
            continue
        for entry in entries:
            if entry.is_symlink():
                continue
            if entry.is_dir() and level < MAX_LEVELS:
                folders.append((entry, level + 1))
            elif entry.is_file() and found < MAX_FILES:
                found += 1
                yield entry.relative_to(top).as_posix(), entry


def _text(file: Path) -> str:
    with file.open("rb") as stream:
        return stream.read(MAX_PARAM).decode("utf-8", "replace").strip()


def _status(folder: Path) -> str:
    """Return the run's status from meta.yaml, which MLflow writes as `status: 3`."""
    for line in _text(folder / "meta.yaml").splitlines():
        name, _, value = line.partition(":")
        if name == "status":
            return STATUS.get(value.strip(), "")
    return ""
