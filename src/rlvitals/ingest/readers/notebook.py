"""Notebooks: the training tables that Trainer shows (HTML or text), and metric lines among the stream outputs."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rlvitals.errors import InputError, Problem
from rlvitals.ingest.readers import console
from rlvitals.ingest.readers.crash import crash_events
from rlvitals.ingest.readers.jsonl import parse_line
from rlvitals.ingest.sources import Source
from rlvitals.ingest.table import RawTable, TableBuilder
from rlvitals.ingest.values import number
from rlvitals.schema import Event, EventKind

MAX_SOURCE = 1_000_000  # characters of code kept for the config that it holds
MAX_TABLE = 50_000_000  # characters of one HTML table

_TABLE = re.compile(r"<table\b[^>]*>(.*?)(?:</table>|\Z)", re.DOTALL | re.IGNORECASE)
_ROW = re.compile(r"<tr\b[^>]*>(.*?)(?=<tr\b|</tr>|\Z)", re.DOTALL | re.IGNORECASE)
_CELL = re.compile(r"<t[hd]\b[^>]*>(.*?)(?=</t[hd]>|<t[hd]\b|\Z)", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")
_NAMES = {"training loss": "loss", "validation loss": "eval_loss", "step": "step", "epoch": "epoch"}


def read(source: Source) -> list[RawTable]:
    """Read a notebook's outputs. Raises InputError when it is no notebook."""
    try:
        value, _ = parse_line(source.read().removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        raise InputError(Problem("broken notebook", source.name, str(error)[:200], "complete notebook JSON")) from error
    cells = value.get("cells") if isinstance(value, dict) else None
    if not isinstance(cells, list):
        raise InputError(Problem("no notebook cells", source.name, expected="a notebook of format 4"))
    cells = [cell for cell in cells if isinstance(cell, dict)]
    text = _source_text(cells)
    tables = list(_tables(cells, source.name, text))
    streams = console.parse(enumerate(_stream(cells).split("\n"), 1), source.name)
    if not tables or _values(streams) > sum(_values(t) for t in tables if "reward" in t.columns):
        return [streams] if streams.rows else tables
    events = _ending(cells)
    last = len(tables) - 1
    return [
        replace(table, text=text + "\n" + streams.text, events=events if i == last else ())
        for i, table in enumerate(tables)
    ]


def _values(table: RawTable) -> int:
    return table.rows * len(table.columns) if any("reward" in key for key in table.columns) else 0


def _ending(cells: list[dict[str, Any]]) -> tuple[Event, ...]:
    """Return how the cell of the last training table ended: with train()'s result, or with an error."""
    for cell in reversed(cells):
        outputs = list(_outputs([cell]))
        data = [output["data"] for output in outputs if isinstance(output.get("data"), dict)]
        if not any("<table" in _joined(d.get("text/html")) and ">Step<" in _joined(d.get("text/html")) for d in data):
            continue
        if any(_joined(d.get("text/plain")).startswith("TrainOutput(") for d in data):
            return (Event(EventKind.FINISHED, None, "the notebook shows the result of train()"),)
        errors = [output for output in outputs if output.get("output_type") == "error"]
        if errors:
            name, value = _joined(errors[-1].get("ename")), _joined(errors[-1].get("evalue"))
            return crash_events(["Traceback (most recent call last)", f"{name}: {value}"], at_end=True)
        return ()
    return ()


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _source_text(cells: list[dict[str, Any]]) -> str:
    code = (_joined(cell.get("source")) for cell in cells if cell.get("cell_type") == "code")
    return "\n".join(code)[:MAX_SOURCE]


def _outputs(cells: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for cell in cells:
        for output in cell.get("outputs") or []:
            if isinstance(output, dict):
                yield output


def _stream(cells: list[dict[str, Any]]) -> str:
    """Join stream outputs as they were shown, and tracebacks of failed cells."""
    parts: list[str] = []
    for output in _outputs(cells):
        if output.get("output_type") == "stream":
            parts.append(_joined(output.get("text")))
        elif output.get("output_type") == "error":
            trace = output.get("traceback")
            parts.append("\n" + "\n".join(t for t in trace if isinstance(t, str)) if isinstance(trace, list) else "")
    return "".join(parts)


def _tables(cells: list[dict[str, Any]], name: str, text: str) -> Iterator[RawTable]:
    for output in _outputs(cells):
        data = output.get("data")
        if not isinstance(data, dict):
            continue
        page = _joined(data.get("text/html"))
        if "<table" in page and len(page) <= MAX_TABLE:
            for match in _TABLE.finditer(page):
                yield from _table([_cells(row) for row in _ROW.findall(match[1])], name)
        elif "Step" in (plain := _joined(data.get("text/plain"))):
            yield from _table([re.split(r"\s{2,}|\t", line.strip()) for line in plain.split("\n")], name)


def _cells(row: str) -> list[str]:
    return [html.unescape(_TAG.sub("", cell)).strip() for cell in _CELL.findall(row)]


def column_name(text: str) -> str:
    """Return the trainer's key of a column head: "rewards / format / mean" -> "rewards/format/mean"."""
    name = re.sub(r"\s*/\s*", "/", text.strip())
    return _NAMES.get(name.lower(), name)


def _table(rows: list[list[str]], name: str) -> Iterator[RawTable]:
    """Yield the table when its head has a step column."""
    rows = [row for row in rows if row]
    if len(rows) < 2:
        return
    header = [column_name(cell) for cell in rows[0]]
    if "step" not in header or len(header) < 2:
        return
    builder = TableBuilder(name)
    for i, cells in enumerate(rows[1:]):
        if len(cells) > len(header):
            cells = cells[-len(header) :]  # a data frame's index column has no head
        record: dict[str, object] = dict(zip(header, cells, strict=False))
        if number(record.get("step"), "step") is not None:
            builder.add(record, i + 1)
    if len(builder):
        yield builder.build()
