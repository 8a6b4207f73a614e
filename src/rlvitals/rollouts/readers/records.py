"""Nested dumps, record by record: JSON lines or JSON files -> canonical rows -> batches."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import orjson

from rlvitals.errors import InputError, Problem
from rlvitals.rollouts.readers.base import Request
from rlvitals.rollouts.readers.texts import MAX_TEXT, joined
from rlvitals.rollouts.table import FILE, PART, ROW, Batch, Column, Kind, absent, kind_of

CHUNK = 20_000  # rollouts per batch
MAX_LINE = 512 * 2**20  # bytes of one record
MAX_PARTS = 64  # reward components of a dump

Row = Mapping[str, object]
"""Canonical column -> value; None and left out mean the same."""
Rows = Callable[[Mapping[str, Any], Path], Iterable[Row]]
"""(record, file it stands in) -> its rollouts."""


def read(paths: Sequence[Path], rows: Rows, request: Request) -> Iterator[Batch]:
    """Yield the rollouts of files, joined over files; `row` counts the rollouts of each file."""
    table = Table(request)
    for path in paths:
        at = 0
        chosen = None if request.rows is None else frozenset(map(int, request.rows.get(path, ())))
        if chosen is not None and not chosen:
            continue
        for number, record in objects(path, request):
            try:
                found = list(rows(record, path))
            except (TypeError, ValueError, KeyError, AttributeError, IndexError):
                request.skips.add("records that are not as this dump writes them: left out", str(path), number)
                continue
            for row in found:
                if chosen is None or at in chosen:
                    table.add(row, path, at)
                at += 1
            if table.rows >= CHUNK:
                yield table.flush()
    if table.rows:
        yield table.flush()


def objects(path: Path, request: Request) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield (number, object) of a file: one per line, or the one object or list that the file is.

    Raises InputError for a file that can't be opened.
    """
    try:
        with opened(path) as stream:
            if path.name.endswith(".json"):
                yield from _whole(stream, path, request)
                return
            for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE), b"")):
                if not line.strip():
                    continue
                value = _parsed(line)
                if isinstance(value, dict):
                    yield number, value
                else:
                    request.skips.add("lines that are no JSON objects: left out", str(path), number)
    except (OSError, EOFError) as error:
        raise InputError(Problem("the file can't be read", str(path), str(error)[:200])) from error


def opened(path: Path) -> IO[bytes]:
    """Open a file, unpacking .gz and .zst."""
    if path.suffix == ".gz":
        return io.BufferedReader(gzip.GzipFile(path, "rb"))
    if path.suffix == ".zst":
        import zstandard

        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(path.open("rb"), closefd=True))
    return path.open("rb")


def _whole(stream: IO[bytes], path: Path, request: Request) -> Iterator[tuple[int, Mapping[str, Any]]]:
    value = _parsed(stream.read(MAX_LINE))
    found = value if isinstance(value, list) else [value]
    for number, item in enumerate(found):
        if isinstance(item, dict):
            yield number, item
        else:
            request.skips.add("files or records that are no JSON objects: left out", str(path), number)


def _parsed(line: bytes) -> object:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            return json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None


@dataclass
class Table:
    """Collects canonical rows of several files."""

    request: Request
    rows: int = 0
    _columns: dict[str, list[object]] = field(default_factory=dict)
    _files: list[str] = field(default_factory=list)
    _at: list[int] = field(default_factory=list)

    def add(self, row: Row, path: Path, at: int) -> None:
        for name, value in row.items():
            if value is None or not self.request.wants(name):
                continue
            column = self._columns.get(name)
            if column is None:
                if name.startswith(PART) and sum(n.startswith(PART) for n in self._columns) >= MAX_PARTS:
                    self.request.skips.add("kept: reward components beyond the first 64, left out", str(path), at)
                    continue
                column = self._columns[name] = []
            column.extend([None] * (self.rows - len(column)))
            column.append(value)
        self._files.append(str(path))
        self._at.append(at)
        self.rows += 1

    def flush(self) -> Batch:
        """Return the rows so far and start anew."""
        columns: dict[str, Column] = {}
        for name, values in self._columns.items():
            values.extend([None] * (self.rows - len(values)))
            columns[name] = self._column(name, values)
        columns[ROW] = np.array(self._at, dtype=np.int64)
        columns[FILE] = _objects(self._files)
        batch = Batch(self.rows, columns, self._files[0], self._at[0])
        self.rows, self._columns, self._files, self._at = 0, {}, [], []
        return batch

    def _column(self, name: str, values: list[object]) -> Column:
        kind = kind_of(name)
        if kind is Kind.TEXT:
            return _objects([self._text(v, i) for i, v in enumerate(values)])
        if kind is Kind.TOKENS:
            return _objects([tokens(v) for v in values])
        out = absent(kind, len(values))
        for i, value in enumerate(values):
            found = number(value)
            if found is not None and (kind is Kind.NUMBER or (np.isfinite(found) and abs(found) < 2**62)):
                out[i] = found
        return out

    def _text(self, value: object, at: int) -> str | None:
        text = value if isinstance(value, str) else joined(value) if isinstance(value, list | dict) else _plain(value)
        if text is not None and len(text) > MAX_TEXT:
            self.request.skips.add(
                f"kept: texts longer than {MAX_TEXT:,} characters, cut there", self._files[at], self._at[at]
            )
            return text[:MAX_TEXT]
        return text


def _objects(values: Sequence[object]) -> np.ndarray:
    out = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        out[i] = value
    return out


def _plain(value: object) -> str | None:
    return None if value is None else str(value)


def number(value: object) -> float | None:
    """Return a number, a boolean, a numeric text or a list of one of them as a float, None for anything else."""
    if isinstance(value, list):
        return number(value[0]) if len(value) == 1 else None
    if isinstance(value, bool | int | float):
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, str) and len(value) < 64:
        try:
            return float(value)
        except ValueError:
            return None
    return None


def whole(value: object) -> int | None:
    """Return a whole number, None for anything else."""
    found = number(value)
    return int(found) if found is not None and np.isfinite(found) and abs(found) < 2**62 else None


def tokens(value: object) -> np.ndarray | None:
    """Return one value per token as float64, None for anything that is no list of numbers."""
    if not isinstance(value, list | np.ndarray) or not len(value):
        return None
    try:
        return np.asarray([np.nan if v is None else v for v in value], dtype=np.float64)
    except (TypeError, ValueError):
        return None


def gap(sampler: object, trainer: object) -> dict[str, object]:
    """Return the columns that compare sampler and trainer: log-probabilities per token, in nats."""
    a, b = tokens(sampler), tokens(trainer)
    out: dict[str, object] = {}
    if a is not None:
        out["sampler_logp_sum"] = float(np.sum(a))
    if b is not None:
        out["trainer_logp_sum"] = float(np.sum(b))
    if a is not None and b is not None and a.size == b.size:
        diff = b - a
        out["mismatch_abs_mean"] = float(np.mean(np.abs(diff)))
        out["mismatch_abs_max"] = float(np.max(np.abs(diff)))
        out["mismatch_k3_mean"] = float(np.mean(np.exp(np.minimum(diff, 50.0)) - 1.0 - diff))
    return out


__all__ = ["Row", "Table", "gap", "number", "objects", "opened", "read", "tokens", "whole"]
