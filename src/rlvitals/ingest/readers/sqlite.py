"""SQLite stores of MLflow and trackio, opened read-only through the standard library: one run of them as a table.

A store holds many runs: the one named as `mlflow.db#RUN` (id or name) is read, else the one that started last.
"""

from __future__ import annotations

import math
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import numpy as np
import orjson

from rlvitals.errors import InputError, Problem
from rlvitals.ingest.longform import Series, rows_of, table_of
from rlvitals.ingest.readers.jsonl import parse_line
from rlvitals.ingest.sources import Source
from rlvitals.ingest.table import RawTable, TableBuilder
from rlvitals.schema import Event, EventKind, Note

MAX_ROWS = 5_000_000  # values of one run that are read
MAX_RUNS = 100_000  # of a store
MAX_SHOWN = 6  # other runs that are named
MAX_OPERATIONS = 2_000_000_000  # SQLite's own steps per file: stops queries that a hostile file makes endless
_STEP_OF_CHECK = 100_000  # of these between two looks at the count
_SUFFIXES = (".db", ".sqlite", ".sqlite3")

Rows = list[tuple[object, ...]]
Query = Callable[[str, Sequence[object]], Rows]


@dataclass(frozen=True, slots=True)
class _Found:
    """One run of a store that has metrics."""

    key: object  # what the metric rows refer to
    name: str
    rank: tuple[str, int]  # start time, so that the last one wins


def read(source: Source) -> list[RawTable]:
    """Read an MLflow or trackio store. Raises InputError when it is neither, or is damaged."""
    with tempfile.TemporaryDirectory(prefix="rlvitals-") as folder:
        path = source.path
        if path is None or path.suffix.lower() not in _SUFFIXES:  # from stdin or packed
            path = Path(folder) / "store.db"
            path.write_bytes(source.read())
        try:
            with _open(path) as query:
                return [_read_store(query, source)]
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:  # the last from SQLite's own messages
            raise InputError(Problem("cannot read the SQLite store", source.name, str(error)[:200])) from error


@contextmanager
def _open(path: Path) -> Iterator[Query]:
    """Open read-only; a live store's write-ahead log is read too, otherwise the file is taken as it is."""
    wal = path.with_name(path.name + "-wal")
    live = wal.exists() and wal.stat().st_size > 0
    uri = f"file:{quote(str(path.resolve()))}?mode=ro" + ("" if live else "&immutable=1")
    connection = sqlite3.connect(uri, uri=True, timeout=5.0)
    try:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA query_only=ON")
        left = [MAX_OPERATIONS // _STEP_OF_CHECK]

        def interrupt() -> int:
            left[0] -= 1
            return int(left[0] < 0)

        connection.set_progress_handler(interrupt, _STEP_OF_CHECK)
        yield lambda sql, values: connection.execute(sql, values).fetchall()
    finally:
        connection.close()


def _read_store(query: Query, source: Source) -> RawTable:
    tables = {str(name) for (name,) in query("SELECT name FROM sqlite_master WHERE type = 'table'", ())}
    columns = {str(row[1]) for row in query("PRAGMA table_info(metrics)", ())} if "metrics" in tables else set()
    if {"key", "value", "step", "run_uuid"} <= columns and "runs" in tables:
        return _mlflow(query, source)
    if {"run_name", "step", "metrics"} <= columns:
        return _trackio(query, source, by_id="run_id" in columns, configs="configs" in tables)
    shown = ", ".join(sorted(tables)[:12]) or "no tables"
    raise InputError(
        Problem(
            "this SQLite file is no MLflow or trackio store", source.name, shown, "a table `metrics` of one of them"
        )
    )


def _pick(runs: list[_Found], source: Source) -> tuple[_Found, tuple[Note, ...]]:
    """Return the run to read and a note that names the others. Raises InputError for an unknown name."""
    if not runs:
        raise InputError(Problem("no run with metrics in the store", source.name))
    if source.select:
        named = [run for run in runs if source.select in (str(run.key), run.name)]
        if not named:
            raise InputError(
                Problem("no such run in the store", source.name, source.select, ", ".join(_labels(runs, None)))
            )
        return max(named, key=lambda run: run.rank), ()
    best = max(runs, key=lambda run: run.rank)
    if len(runs) == 1:
        return best, ()
    others = ", ".join(_labels(runs, best))
    text = f"the store holds {len(runs)} runs; read the last one, {best.name}. Others: {others}. Name one as FILE#RUN"
    return best, (Note(text, source.name),)


def _labels(runs: list[_Found], best: _Found | None) -> list[str]:
    names = [run.name for run in sorted(runs, key=lambda run: run.rank, reverse=True) if run is not best]
    return names[:MAX_SHOWN] + ([f"{len(names) - MAX_SHOWN} more"] if len(names) > MAX_SHOWN else [])


def _mlflow_value(value: float, is_nan: object) -> float:
    """Return what was logged: MLflow's databases hold NaN as a flag and infinity as the largest float."""
    if is_nan:
        return math.nan
    return math.copysign(math.inf, value) if abs(value) >= sys.float_info.max else value


def _mlflow(query: Query, source: Source) -> RawTable:
    with_metrics = "SELECT run_uuid FROM metrics GROUP BY run_uuid"
    found = query(
        "SELECT run_uuid, name, start_time, status FROM runs "
        f"WHERE run_uuid IN ({with_metrics}) AND coalesce(lifecycle_stage, 'active') <> 'deleted' LIMIT ?",
        (MAX_RUNS,),
    )
    status = {row[0]: str(row[3]) for row in found}
    runs = [_Found(r[0], str(r[1] or r[0]), (_padded(r[2]), i)) for i, r in enumerate(found)]
    run, notes = _pick(runs, source)
    values = query(
        "SELECT key, step, value, is_nan, timestamp FROM metrics WHERE run_uuid = ? ORDER BY timestamp, rowid LIMIT ?",
        (run.key, MAX_ROWS),
    )
    series: dict[str, tuple[list[int], list[int], list[float]]] = {}
    for i, (key, step, value, is_nan, _) in enumerate(values):
        if isinstance(value, int | float) and isinstance(step, int):
            orders, steps, numbers = series.setdefault(str(key), ([], [], []))
            orders.append(i)
            steps.append(step)
            numbers.append(_mlflow_value(float(value), is_nan))
    rows = rows_of({
        key: Series(np.array(order, dtype=np.int64), np.array(step, dtype=np.int64), np.array(value))
        for key, (order, step, value) in series.items()
    })  # fmt: skip
    params = {str(k): v for k, v in query("SELECT key, value FROM params WHERE run_uuid = ?", (run.key,))}
    facts = {"configs": {"MLflow params": params}} if params else {}
    table = table_of([rows], source.name, notes=notes, facts=facts)
    return with_ending(table, status.get(run.key, ""))


def with_ending(table: RawTable, status: str) -> RawTable:
    """Return the table with MLflow's run status as an event."""
    if status == "FINISHED":
        return replace(table, events=(Event(EventKind.FINISHED, None, "MLflow's run status is FINISHED"),))
    if status in ("FAILED", "KILLED"):
        return replace(table, events=(Event(EventKind.CRASH, None, f"MLflow's run status is {status}"),))
    return table


def _trackio(query: Query, source: Source, *, by_id: bool, configs: bool) -> RawTable:
    key = "run_id" if by_id else "run_name"
    found = query(f"SELECT {key}, max(run_name), min(timestamp) FROM metrics GROUP BY {key} LIMIT ?", (MAX_RUNS,))
    runs = [_Found(r[0], str(r[1]), (str(r[2]), i)) for i, r in enumerate(found)]
    run, notes = _pick(runs, source)
    builder = TableBuilder(source.name)
    broken = 0
    for number, (step, blob) in enumerate(
        query(f"SELECT step, metrics FROM metrics WHERE {key} = ? ORDER BY rowid LIMIT ?", (run.key, MAX_ROWS)), 1
    ):
        row = _json(blob)
        if not isinstance(row, dict):
            broken += 1
            continue
        row.setdefault("_step", step)  # trackio counts its own calls, as W&B does
        builder.add(row, number)
    if broken:
        notes = (*notes, Note("skipped rows that are no JSON objects", source.name, 0, broken))
    config: object = None
    if configs:
        stored = query(f"SELECT config FROM configs WHERE {key} = ? LIMIT 1", (run.key,))
        config = _json(stored[0][0]) if stored else None
    facts = {"configs": {"trackio config": config}} if isinstance(config, dict) else {}
    return builder.build(notes, facts=facts)


def _json(blob: object) -> object:
    """Return the JSON of a text or blob cell, None when it is none."""
    raw = blob.encode() if isinstance(blob, str) else blob
    if not isinstance(raw, bytes):
        return None
    try:
        return orjson.loads(raw)
    except ValueError:
        pass
    try:
        return parse_line(raw)[0]
    except ValueError:
        return None


def _padded(value: object) -> str:
    return f"{value:020d}" if isinstance(value, int) else ""
