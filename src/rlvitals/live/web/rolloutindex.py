"""An index over the rollouts of a run: every number of a million of them at hand, their texts left where they are.

The numbers go once into a temporary duckdb file, in the background and batch by batch; a page asks it for a few rows.
Texts are read from the run's own files for the rollouts that are looked at.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rlvitals.errors import Problem
from rlvitals.live.web.problems import Refused
from rlvitals.live.web.rolloutquery import ORDERS, Filters, Row
from rlvitals.live.web.runs import Shown
from rlvitals.rollouts.table import FIELDS, MISSING, ROW, TEXT_HEAVY, Batch, Kind

if TYPE_CHECKING:
    import duckdb

LEFT_IN_FILES = TEXT_HEAVY | {"gold", "parsed"}
INDEXED = tuple(f for f in FIELDS if f.kind is not Kind.TOKENS and f.name not in LEFT_IN_FILES)
NAMES = {"group": "grp", "index": "idx"}  # words of SQL
TYPES = {Kind.INTEGER: "BIGINT", Kind.NUMBER: "DOUBLE", Kind.TEXT: "VARCHAR"}
MEMORY = "512MB"  # of the index; beyond it duckdb uses its file
MAX_INDEXES = 4  # runs whose rollouts are open at once
MAX_FACETS = 100  # different families offered for choice
MAX_GROUP = 64  # rollouts of a group shown side by side
MAX_TEXT = 20_000  # characters of one text that are shown; the rest is counted
KEPT = 256  # rollouts whose texts stay in memory
REST = 4.0  # as in runs.py: seconds of rest per second of indexing


class Source(Protocol):
    """What the index needs of `Run.rollouts`."""

    def scan(
        self, columns: Sequence[str] | None = None, *, rows: Mapping[Path, Sequence[int]] | None = None
    ) -> Iterator[Batch]: ...


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows, and how many there are in all."""

    total: int
    rows: tuple[Row, ...]


class Index:
    """The rollouts of one run."""

    def __init__(self, source: Source) -> None:
        import duckdb

        self.source = source
        self.complete = False
        self.error = ""
        self.rows = 0
        self.seconds = 0.0
        self._folder = Path(tempfile.mkdtemp(prefix="rlvitals-"))
        self._db: duckdb.DuckDBPyConnection = duckdb.connect(
            str(self._folder / "rollouts.duckdb"), config={"memory_limit": MEMORY, "threads": "2"}
        )
        columns = ", ".join(f"{_sql(f.name)} {TYPES[f.kind]}" for f in INDEXED)
        self._db.execute(f"CREATE TABLE rollouts (row BIGINT, source VARCHAR, source_row BIGINT, {columns})")
        self._texts: OrderedDict[int, Row] = OrderedDict()
        self._facets: tuple[int, dict[str, list[str]]] = (-1, {})
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._build, name="rlvitals-rollouts", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop indexing and remove the file."""
        self._closed.set()
        self._thread.join(timeout=5.0)
        self._db.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def wait(self, seconds: float) -> bool:
        """Wait until everything is indexed; False when that takes longer."""
        self._thread.join(timeout=seconds)
        return self.complete

    def page(self, filters: Filters) -> Page:
        """Return the rollouts that fit, numbers only."""
        where, values = filters.where()
        with self._db.cursor() as db:
            total = _one(db.execute(f"SELECT count(*) FROM rollouts WHERE {where}", values))
            sql = f"SELECT * FROM rollouts WHERE {where} ORDER BY {ORDERS[filters.order]} LIMIT ? OFFSET ?"
            found = db.execute(sql, [*values, filters.limit, filters.offset])
            return Page(total, _rows(found))

    def one(self, row: int) -> Row | None:
        """Return one rollout with its texts, None when there is none of that number."""
        with self._db.cursor() as db:
            found = _rows(db.execute("SELECT * FROM rollouts WHERE row = ?", [min(row, 2**62)]))
        return self._with_texts(found)[0] if found else None

    def group(self, step: int, group: str) -> tuple[Row, ...]:
        """Return the rollouts of a group with their texts, at most MAX_GROUP."""
        sql = "SELECT * FROM rollouts WHERE step = ? AND grp = ? ORDER BY idx, row LIMIT ?"
        with self._db.cursor() as db:
            found = _rows(db.execute(sql, [min(step, 2**62), group, MAX_GROUP]))
        return self._with_texts(found)

    def neighbours(self, row: Row) -> tuple[int | None, int | None]:
        """Return the numbers of the rollouts before and after one, by step, group and index."""
        with self._db.cursor() as db:
            before = _one(db.execute("SELECT max(row) FROM rollouts WHERE row < ?", [row["row"]]))
            after = _one(db.execute("SELECT min(row) FROM rollouts WHERE row > ?", [row["row"]]))
        return before, after

    def facets(self) -> dict[str, list[str]]:
        """Return the values that can be chosen: families, stop reasons, verifier statuses; the most frequent first."""
        if self._facets[0] != self.rows:
            found = {}
            with self._db.cursor() as db:
                for name in ("family", "stop_reason", "verifier_status"):
                    sql = (
                        f"SELECT {name} FROM rollouts WHERE {name} IS NOT NULL "
                        f"GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT {MAX_FACETS}"
                    )
                    found[name] = [str(r[0]) for r in db.execute(sql).fetchall()]
            self._facets = (self.rows, found)
        return self._facets[1]

    def _build(self) -> None:
        started = time.monotonic()
        try:
            for batch in self.source.scan([f.name for f in INDEXED]):
                if self._closed.is_set():
                    return
                self._insert(batch)
            self.complete = True
        except Exception as error:  # shown on the page; what was indexed stays
            self.error = f"{type(error).__name__}: {error}"
        finally:
            self.seconds = time.monotonic() - started

    def _insert(self, batch: Batch) -> None:
        data: dict[str, Any] = {
            "row": np.arange(self.rows, self.rows + batch.rows),
            "source": np.full(batch.rows, batch.source, dtype=object),
            "source_row": batch.columns.get(ROW, np.arange(batch.first_row, batch.first_row + batch.rows)),
        }
        picked = ["row", "source", "source_row"]
        for f in INDEXED:
            name = _sql(f.name)
            if not batch.has(f.name):
                picked.append(f"NULL AS {name}")
            elif f.kind is Kind.TEXT:
                data[name] = np.array([None if t is None else _utf8(str(t)) for t in batch.text(f.name)], dtype=object)
                picked.append(f"CAST({name} AS VARCHAR)")
            elif f.kind is Kind.INTEGER:
                data[name] = batch.integer(f.name)
                picked.append(f"nullif({name}, {MISSING})")
            else:
                data[name] = batch.number(f.name)
                picked.append(f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END")
        with self._db.cursor() as db:
            db.execute(f"INSERT INTO rollouts SELECT {', '.join(picked)} FROM data")
        self.rows += batch.rows

    def _with_texts(self, found: Sequence[Row]) -> tuple[Row, ...]:
        """Return rollouts with everything that their files say of them; the last KEPT ones are remembered."""
        with self._lock:
            lacking = [r for r in found if r["row"] not in self._texts]
            if lacking:
                read = _texts_of(self.source, lacking)
                for row in lacking:
                    self._texts[row["row"]] = read.get(_place(row), {})
            out = tuple({**self._texts[r["row"]], **r} for r in found)
            while len(self._texts) > KEPT:
                self._texts.popitem(last=False)
            return out


class Shelves:
    """The open indexes, the least used closed first; a run that was read again is indexed again after a rest."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, tuple[object, Index, float]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, id: str, source: Source) -> Index:
        """Return the index of a run's rollouts; one that is being built answers with what it has so far.

        Raises Refused when there is no room for its file.
        """
        with self._lock:
            known = self._open.get(id)
            if known is not None and known[0] is not source and self._rested(known):
                known[1].close()
                known = None
            if known is None:
                known = (source, _made(source), time.monotonic())
                self._open[id] = known
            self._open.move_to_end(id)
            while len(self._open) > MAX_INDEXES:
                self._open.popitem(last=False)[1][1].close()
            return known[1]

    def close(self) -> None:
        with self._lock:
            for _, index, _ in self._open.values():
                index.close()
            self._open.clear()

    @staticmethod
    def _rested(known: tuple[object, Index, float]) -> bool:
        _, index, since = known
        finished = index.complete or bool(index.error)
        return finished and time.monotonic() - since > (1 + REST) * index.seconds


def _made(source: Source) -> Index:
    import duckdb

    try:
        return Index(source)
    except (OSError, duckdb.Error) as error:
        hint = f"Free some of {tempfile.gettempdir()}"
        raise Refused(503, Problem("rollouts cannot be indexed", found=str(error)[:200], hint=hint)) from error


def index_of(shelves: Shelves, shown: Shown) -> Index | None:
    """Return the index of a run's rollouts, None when it has none."""
    run = shown.diagnosis.run if shown.diagnosis is not None else None
    if run is None or run.rollouts is None:
        return None
    return shelves.get(shown.id, run.rollouts)  # type: ignore[arg-type]


def _place(row: Row) -> tuple[str, int]:
    return row["source"], row["source_row"]


def _texts_of(source: Source, wanted: Sequence[Row]) -> dict[tuple[str, int], Row]:
    """Read the rows asked for and no others: (file, row in it) -> all of its columns."""
    rows: dict[Path, list[int]] = {}
    for row in wanted:
        rows.setdefault(Path(row["source"]), []).append(row["source_row"])
    found = {}
    for batch in source.scan(None, rows={path: sorted(numbers) for path, numbers in rows.items()}):
        for i in range(batch.rows):
            found[batch.source, batch.row(i)] = _row(batch, i)
    return found


def _row(batch: Batch, i: int) -> Row:
    """Return one rollout of a batch: texts cut to MAX_TEXT, no token series."""
    out: Row = {}
    for name, column in batch.columns.items():
        value: Any = column[i]
        if isinstance(value, str):
            value = _utf8(value)
            if len(value) > MAX_TEXT:
                out[f"{name}_characters"] = len(value)
                value = value[:MAX_TEXT]
        elif isinstance(value, np.ndarray):
            continue
        elif isinstance(value, np.integer):
            value = None if value == MISSING else int(value)
        elif isinstance(value, float):
            value = None if np.isnan(value) else float(value)
        out[name] = value
    return out


def _rows(found: Any) -> tuple[Row, ...]:
    back = {v: k for k, v in NAMES.items()}
    names = [back.get(d[0], d[0]) for d in found.description]
    return tuple(dict(zip(names, values, strict=True)) for values in found.fetchall())


def _one(found: Any) -> Any:
    row = found.fetchone()
    return None if row is None else row[0]


def _sql(name: str) -> str:
    return NAMES.get(name, name)


def _utf8(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
