"""JSON lines, flat or nested. A broken line is counted, never fatal; NaN and Infinity literals are accepted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

import orjson

from rlvitals.ingest import verifiers_results
from rlvitals.ingest.grouprows import GroupRows
from rlvitals.ingest.rolloutrows import RolloutRows, is_rollout
from rlvitals.ingest.sources import Source
from rlvitals.ingest.table import RawTable, TableBuilder
from rlvitals.rollouts.readers.atropos import is_group
from rlvitals.schema import Note

MAX_EXAMPLE = 60  # characters of a bad line that are shown


def parse_line(line: bytes) -> tuple[object, bool]:
    """Return (value, whether the text was broken UTF-8). Raises ValueError for a line that is no JSON."""
    try:
        return orjson.loads(line), False
    except orjson.JSONDecodeError:
        text = line.decode("utf-8", "replace")
        try:
            return json.loads(text), "\ufffd" in text
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


def read(source: Source) -> list[RawTable]:
    """Read a JSONL file."""
    return [read_lines(source.lines(), source.name)]


def read_lines(lines: Iterable[tuple[int, bytes]], name: str) -> RawTable:
    """Return the table of numbered lines; what could not be used stands in its notes."""
    builder = TableBuilder(name)
    rollouts: RolloutRows | GroupRows | None = None
    bad: list[tuple[int, bytes]] = []
    bad_count = odd = broken = 0
    last_line = 0
    loads = orjson.loads
    add: Callable[[Mapping[str, object], int], object] = builder.add
    for number, line in lines:
        try:
            row = loads(line)
        except orjson.JSONDecodeError:
            if not line.strip():
                continue
            try:
                row, replaced = parse_line(line.strip().rstrip(b","))
                broken += replaced
            except ValueError:
                bad_count += 1
                last_line = number
                if len(bad) < 3:
                    bad.append((number, line))
                continue
        if isinstance(row, dict):
            if rollouts is None and not len(builder):
                if verifiers_results.is_result(row):
                    raise verifiers_results.refuse(name)
                rollouts = RolloutRows(name) if is_rollout(row) else GroupRows(name) if is_group(row) else None
                add = builder.add if rollouts is None else rollouts.add
            add(row, number)
        else:
            odd += 1
    notes: list[Note] = []
    if bad_count:
        example = bad[0][1][:MAX_EXAMPLE].decode("utf-8", "replace")
        what = "a half-written line" if bad_count == 1 and last_line == number else "lines that are no JSON"
        notes.append(Note(f"skipped {what}, first: {example!r}", name, bad[0][0], bad_count))
    if odd:
        notes.append(Note("skipped records that are no objects", name, 0, odd))
    if broken:
        notes.append(Note("replaced bytes that are no UTF-8", name, 0, broken))
    return builder.build(tuple(notes)) if rollouts is None else rollouts.build(tuple(notes))
