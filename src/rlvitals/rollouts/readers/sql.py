"""Flat dumps through duckdb: JSON lines, parquet and CSV, with columns named and never inferred.

Every JSON value is declared as text and converted one by one, so that a mixed or broken value costs its own cell, a
broken line its own row, and a key that comes late is there.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from rlvitals.errors import InputError, Problem
from rlvitals.rollouts.readers.base import Request
from rlvitals.rollouts.readers.texts import MAX_TEXT, spoken
from rlvitals.rollouts.table import ROW, TEXT_HEAVY, Batch, Column, Kind, absent, kind_of

CHUNK = 100_000  # rollouts per batch of numbers
TEXT_CHUNK = 20_000  # and per batch with texts, which weigh a hundred times as much
MAX_OBJECT = 32 * 2**20  # bytes of one JSON line; duckdb holds twice that per thread
BUNDLE = 32 * 2**20  # bytes of small files that one query reads
FILENAME = "file\u00b7of\u00b7row"  # no key of a dump
MEMORY = "1500MB"  # of duckdb, before it spills to disk


def quoted(name: str) -> str:
    """Return an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


class Raw:
    """The columns of a file, as SQL expressions of what the table needs; None where the file has none of the keys."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self.types = types

    def has(self, key: str) -> bool:
        return key in self.types

    def number(self, *keys: str) -> str | None:
        """Return a DOUBLE: the first of the keys with a number; true is 1."""
        return self._first(keys, self._number)

    def whole(self, *keys: str) -> str | None:
        """Return a BIGINT."""
        found = self.number(*keys)
        return None if found is None else f"try_cast({found} AS BIGINT)"

    def text(self, *keys: str) -> str | None:
        """Return a VARCHAR; a list of messages becomes their contents, joined."""
        return self._first(keys, self._text)

    def tokens(self, *keys: str) -> str | None:
        """Return a list of numbers as JSON text."""
        return self._first(keys, lambda key: self._plain(key) if self._is_text(key) else f"to_json({quoted(key)})")

    def _first(self, keys: Sequence[str], form: Callable[[str], str]) -> str | None:
        found = [form(key) for key in keys if key in self.types]
        return None if not found else found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"

    def _is_text(self, key: str) -> bool:
        return self.types[key].upper().startswith(("VARCHAR", "JSON", "BLOB"))

    def _plain(self, key: str) -> str:
        return quoted(key)

    def _number(self, key: str) -> str:
        if not self._is_text(key):
            scalar = "[" not in self.types[key] and not self.types[key].upper().startswith(("STRUCT", "MAP", "LIST"))
            return f"try_cast({quoted(key)} AS DOUBLE)" if scalar else "NULL::DOUBLE"
        name = quoted(key)
        return f"CASE {name} WHEN 'true' THEN 1 WHEN 'false' THEN 0 ELSE try_cast({name} AS DOUBLE) END"

    def _text(self, key: str) -> str:
        kind = self.types[key].upper()
        name = quoted(key)
        if kind.startswith("STRUCT") and kind.endswith("[]") and "CONTENT" in kind:
            return f"to_json({name})::VARCHAR"  # the messages are joined when they are read
        if "[" in kind or kind.startswith(("STRUCT", "MAP")):
            return f"to_json({name})::VARCHAR"
        return name if self._is_text(key) else f"{name}::VARCHAR"


Select = Callable[[Raw], Mapping[str, str | None]]
"""(the file's columns) -> canonical column -> SQL, None where the file has none."""


def connect() -> Any:
    """Return a connection that reads files and nothing else: no extension is fetched, no network is used."""
    import duckdb

    connection = duckdb.connect(config={"temp_directory": tempfile.gettempdir(), "memory_limit": MEMORY})
    connection.execute("SET autoinstall_known_extensions = false; SET autoload_known_extensions = false")
    connection.execute("SET enable_progress_bar = false")
    return connection


def source_of(paths: Sequence[Path], keys: Sequence[str]) -> str:
    """Return the table function that reads files of one kind, with the JSON keys that may be in them."""
    names = f"[{', '.join(literal(str(path)) for path in paths)}]"
    suffixes = [s.lower() for s in paths[0].suffixes]
    if ".parquet" in suffixes:
        return f"read_parquet({names}, union_by_name=true, filename={literal(FILENAME)})"
    if ".csv" in suffixes or ".tsv" in suffixes:
        lenient = "ignore_errors=true, null_padding=true"
        return f"read_csv({names}, all_varchar=true, header=true, {lenient}, filename={literal(FILENAME)})"
    columns = ", ".join(f"{literal(key)}: 'VARCHAR'" for key in dict.fromkeys(keys))
    how = f"ignore_errors=true, maximum_object_size={MAX_OBJECT}, filename={literal(FILENAME)}"
    return f"read_ndjson({names}, columns={{{columns}}}, {how})"


def read(paths: Sequence[Path], keys: Sequence[str], select: Select, request: Request) -> Iterator[Batch]:
    """Yield the rollouts of files, one file after the other; a file that can't be read is counted and left out.

    Args:
        keys: JSON keys that may be there; parquet and CSV name their columns themselves.

    Raises InputError when no file can be read, or for a mapped key that a file doesn't have.
    """
    connection = connect()
    errors: list[InputError] = []
    try:
        for bundle in _bundles(paths, request):
            try:
                yield from _files(connection, bundle, keys, select, request)
                continue
            except InputError as error:
                if len(bundle) == 1:
                    _leave_out(error, bundle[0], errors, request)
                    continue
            for path in bundle:  # one of them is broken: each by itself
                try:
                    yield from _files(connection, (path,), keys, select, request)
                except InputError as error:
                    _leave_out(error, path, errors, request)
    finally:
        connection.close()
    if errors and len(errors) == len(paths):
        raise InputError(*[problem for error in errors[:5] for problem in error.problems])


def _leave_out(error: InputError, path: Path, errors: list[InputError], request: Request) -> None:
    if request.mapping and "mapped key" in str(error):
        raise error
    errors.append(error)
    request.skips.add("files that can't be read: left out", str(path))


def _bundles(paths: Sequence[Path], request: Request) -> Iterator[tuple[Path, ...]]:
    """Yield files to be read by one query: small neighbours together, since a query has its own price."""
    held: list[Path] = []
    size = 0
    for path in paths:
        if request.rows is not None and not request.rows.get(path):
            continue
        bytes_ = path.stat().st_size if path.exists() else BUNDLE
        if held and (request.rows is not None or size + bytes_ > BUNDLE or path.suffix != held[0].suffix):
            yield tuple(held)
            held, size = [], 0
        held.append(path)
        size += bytes_
    if held:
        yield tuple(held)


def _files(
    connection: Any, paths: Sequence[Path], keys: Sequence[str], select: Select, request: Request
) -> Iterator[Batch]:
    import duckdb

    try:
        source = source_of(paths, keys)
        described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        types = {str(row[0]): str(row[1]) for row in described if row[0] != FILENAME}
        forms = {n: sql for n, sql in select(Raw(types)).items() if sql is not None}
        forms |= _mapped(request, Raw(types), paths[0])
        wanted = {n: sql for n, sql in forms.items() if request.wants(n)}
        if wanted:
            yield from _rows(connection, source, wanted, paths, request)
    except duckdb.Error as error:
        line = str(error).splitlines()[0][:200]
        raise InputError(Problem("the file can't be read as rollouts", str(paths[0]), line, "a whole file")) from error


def _mapped(request: Request, raw: Raw, path: Path) -> dict[str, str]:
    """Return the user's own columns. Raises InputError for a key that the file doesn't have."""
    out: dict[str, str] = {}
    missing: list[Problem] = []
    for name, key in request.mapping.items():
        kind = kind_of(name)
        forms = {Kind.INTEGER: raw.whole, Kind.NUMBER: raw.number, Kind.TEXT: raw.text, Kind.TOKENS: raw.tokens}
        found = forms[kind](key)
        if found is None:
            known = ", ".join(sorted(raw.types)[:12])
            missing.append(
                Problem("mapped key is not in the dump", f"{path}: {name}={key}", expected=f"one of {known}")
            )
        else:
            out[name] = found
    if missing:
        raise InputError(*missing)
    return out


def _rows(
    connection: Any, source: str, forms: Mapping[str, str], paths: Sequence[Path], request: Request
) -> Iterator[Batch]:
    """Copy what is wanted into a table that may spill to disk, and hand it out in pieces, none of two files."""
    columns = ", ".join(
        [f"{_bounded(name, sql)} AS {quoted(name)}" for name, sql in forms.items()] + [quoted(FILENAME)]
    )
    if request.rows is None:
        query = f"SELECT {columns} FROM {source}"
    else:
        chosen = list(map(int, request.rows.get(paths[0], ())))
        connection.execute("CREATE OR REPLACE TEMP TABLE chosen AS SELECT unnest($1::BIGINT[]) AS place", [chosen])
        numbered = f"SELECT *, row_number() OVER () - 1 AS place FROM {source}"
        query = f"SELECT {columns}, place FROM ({numbered}) WHERE place IN (SELECT place FROM chosen)"
    # several threads do not keep the order of several small files
    connection.execute("SET threads = 1" if len(paths) > 1 else "RESET threads")
    connection.execute(f"CREATE OR REPLACE TEMP TABLE rollouts AS {query}")
    named = {name: f"count({quoted(name)})" for name in forms}
    counted = connection.execute(f"SELECT count(*), {', '.join(named.values())} FROM rollouts").fetchone()
    there = [name for name, count in zip(named, counted[1:], strict=True) if count]
    total = int(counted[0])
    if not there:
        request.skips.add("lines without any known value: left out", str(paths[0]), 0, total)
        return
    at = "rowid" if request.rows is None else "place"
    shown = ", ".join(quoted(name) for name in there)
    empty = " AND ".join(f"{quoted(name)} IS NULL" for name in there)
    first = _firsts(connection, empty, request) if request.rows is None else {}
    size = TEXT_CHUNK if TEXT_HEAVY & set(there) else CHUNK
    for begin in range(0, total, size):
        part = f"rowid >= {begin} AND rowid < {begin + size} AND NOT ({empty})"
        wanted = f"{at} AS {quoted(ROW)}, {quoted(FILENAME)}, {shown}"
        result = connection.execute(f"SELECT {wanted} FROM rollouts WHERE {part} ORDER BY rowid").fetchnumpy()
        files = np.ma.getdata(result.pop(FILENAME))
        cuts: list[int] = (np.flatnonzero(files[1:] != files[:-1]) + 1).tolist()
        for start, stop in itertools.pairwise([0, *cuts, files.size]):
            if stop > start:
                piece = {name: column[start:stop] for name, column in result.items()}
                piece[ROW] = piece[ROW] - first.get(str(files[start]), 0)
                yield _batch(piece, str(files[start]), request)


def _firsts(connection: Any, empty: str, request: Request) -> dict[str, int]:
    """Return file -> its first row in the table, and count the rows that hold nothing."""
    found = connection.execute(
        f"SELECT {quoted(FILENAME)}, min(rowid), count(*) FILTER ({empty}), min(rowid) FILTER ({empty}) "
        f"FROM rollouts GROUP BY 1 ORDER BY 2"
    ).fetchall()
    for file, first, broken, place in found:
        reason = "lines that are broken or hold nothing known: left out"
        request.skips.add(reason, str(file), int(place or first) - int(first), int(broken))
    return {str(file): int(first) for file, first, _, _ in found}


def _bounded(name: str, sql: str) -> str:
    return f"left({sql}, {MAX_TEXT + 1})" if kind_of(name) is Kind.TEXT else sql


def _batch(result: Mapping[str, Any], path: str, request: Request) -> Batch:
    rows = int(result[ROW].shape[0])
    columns: dict[str, Column] = {}
    for name, found in result.items():
        columns[name] = _column(found, kind_of(name), rows)
        if kind_of(name) is Kind.TEXT and name in ("prompt", "completion", "raw_output"):
            columns[name], cut = spoken(np.asarray(columns[name], dtype=object))
            request.skips.add(f"kept: texts longer than {MAX_TEXT:,} characters, cut there", path, -1, cut)
    first = int(columns[ROW][0]) if rows else 0
    return Batch(rows, columns, path, first)


def _column(found: Any, kind: Kind, rows: int) -> Column:
    """Return a column as the table holds it: what is NULL in the file is absent, never 0."""
    mask = np.ma.getmaskarray(found)
    data = np.ma.getdata(found)
    out: Any = absent(kind, rows)
    keep = ~mask
    if kind is Kind.TOKENS:
        for i in np.flatnonzero(keep):
            out[i] = _tokens(data[i])
    elif kind is Kind.TEXT:
        out[keep] = data[keep]
    else:
        out[keep] = data[keep].astype(out.dtype)
    done: Column = out
    return done


def _tokens(text: object) -> np.ndarray | None:
    try:
        values = orjson.loads(text) if isinstance(text, str) else None
        return np.array([np.nan if v is None else float(v) for v in values], dtype=np.float64) if values else None
    except (orjson.JSONDecodeError, TypeError, ValueError):
        return None


__all__ = ["CHUNK", "Raw", "Select", "connect", "literal", "quoted", "read", "source_of"]
