"""W&B's local .wandb files: history rows, config and exit code, read from the record log; nothing in them is executed.

Each record of the log is a protobuf Record. Source: wandb/proto/wandb_internal.proto.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from rlvitals.ingest.readers.protobuf import BYTES, VARINT, Field, WireError, fields, signed, varint
from rlvitals.ingest.readers.recordlog import Damage, records
from rlvitals.ingest.sources import Source
from rlvitals.ingest.table import RawTable, TableBuilder
from rlvitals.schema import Event, EventKind, Note

MAX_KEY = 1000  # bytes
MAX_ITEMS = 50_000  # of one row

_HISTORY, _CONFIG, _RUN, _EXIT = 2, 5, 17, 18  # fields of Record
SKIPPED_KEYS = ("_wandb", "_runtime", "_timestamp")  # W&B's own clock


@dataclass
class _State:
    builder: TableBuilder
    config: dict[str, object] = field(default_factory=dict)
    exit_code: int | None = None


def read(source: Source) -> list[RawTable]:
    """Read one .wandb file."""
    return read_files([source])


def read_files(sources: Sequence[Source]) -> list[RawTable]:
    """Read the .wandb files of one run (one per start), in the order given."""
    state = _State(TableBuilder(sources[0].name))
    notes: list[Note] = []
    for source in sources:
        damage, state.exit_code = Damage(), None
        for number, record in enumerate(records(source, damage), 1):
            try:
                _record(record, state, number)
            except WireError:
                damage.records += 1
        notes += damage.notes(source.name)
    if len(sources) > 1:
        notes.append(Note(f"{len(sources)} W&B files of one run, read in the order of their start", sources[0].name))
    facts = {"configs": {"W&B config": state.config}} if state.config else {}
    return [state.builder.build(tuple(notes), _ending(state), facts=facts)]


def _ending(state: _State) -> tuple[Event, ...]:
    if state.exit_code is None:
        return ()
    if state.exit_code == 0:
        return (Event(EventKind.FINISHED, None, "W&B recorded that the process ended with exit code 0"),)
    return (Event(EventKind.CRASH, None, f"W&B recorded that the process ended with exit code {state.exit_code}"),)


def _record(record: bytes, state: _State, number: int) -> None:
    for part in fields(record, 0, len(record)):
        if part.wire != BYTES:
            continue
        if part.number == _HISTORY:
            row = _history(record, part)
            if row:
                state.builder.add(row, number)
        elif part.number == _CONFIG:
            _config(record, part, state.config)
        elif part.number == _RUN:
            for inner in fields(record, part.start, part.end):
                if inner.number == 4 and inner.wire == BYTES:
                    _config(record, inner, state.config)
        elif part.number == _EXIT:
            code = [f.value for f in fields(record, part.start, part.end) if f.number == 1 and f.wire == VARINT]
            state.exit_code = signed(code[0]) if code else 0


def _history(record: bytes, message: Field) -> dict[str, object]:
    """Return a row of metrics."""
    plain = _plain_row(record, message.start, message.end)
    row, step = plain if plain is not None else _any_row(record, message)
    for key in SKIPPED_KEYS:
        row.pop(key, None)
    if row and step is not None:
        row.setdefault("_step", step)
    return row


def _plain_row(record: bytes, at: int, end: int) -> tuple[dict[str, object], int | None] | None:
    """Return (row, step) of a message in the one shape that W&B writes for flat metrics, else None: four times faster.

    Each item is a name (field 1, or its parts as field 2) below 128 bytes and its JSON (field 16) below 16 KiB.
    """
    keys: list[bytes] = []
    values: list[bytes] = []
    step: int | None = None
    try:
        while at < end:
            tag, size, at = record[at], record[at + 1], at + 2
            if size >= 0x80:
                size, at = (size & 0x7F) | record[at] << 7, at + 1
            stop = at + size
            if tag == 0x12 and (size == 0 or record[at] == 0x08):
                step, at = (signed(varint(record, at + 1, stop)[0]) if size else 0), stop
                continue
            middle = at + 2 + record[at + 1]
            key = record[at + 2 : middle]
            while record[middle] == 0x12 and record[middle + 1] < 0x80:  # the inner names of a nested value
                key += b"/" + record[middle + 2 : middle + 2 + record[middle + 1]]
                middle += 2 + record[middle + 1]
            length, first = record[middle + 2], middle + 3
            if length >= 0x80:
                length, first = (length & 0x7F) | record[first] << 7, first + 1
            named = tag == 0x0A and record[at] in (0x0A, 0x12) and record[at + 1] < 0x80
            if not named or record[middle : middle + 2] != b"\x82\x01" or first + length != stop:
                return None
            keys.append(key)
            values.append(record[first:stop])
            at = stop
        parsed = orjson.loads(b"[" + b",".join(values) + b"]")
    except (IndexError, ValueError):  # NaN among the values, or another shape
        return None
    if at != end or len(parsed) != len(keys) or len(keys) > MAX_ITEMS:
        return None
    return {key.decode("utf-8", "replace"): value for key, value in zip(keys, parsed, strict=True)}, step


def _any_row(record: bytes, message: Field) -> tuple[dict[str, object], int | None]:
    """Return (row, step) of any history message. Raises WireError."""
    row: dict[str, object] = {}
    step: int | None = None
    for part in fields(record, message.start, message.end):
        if part.number == 1 and part.wire == BYTES and len(row) < MAX_ITEMS:
            path, value = _item(record, part)
            if path:
                row["/".join(path)] = _parsed(value)
        elif part.number == 2 and part.wire == BYTES:
            step = next((signed(f.value) for f in fields(record, part.start, part.end) if f.number == 1), 0)
    return row, step


def _config(record: bytes, message: Field, config: dict[str, object]) -> None:
    """Apply updates and removals to the config."""
    for part in fields(record, message.start, message.end):
        if part.wire != BYTES or part.number not in (1, 2):
            continue
        path, value = _item(record, part)
        if not path or path[0] == "_wandb":
            continue
        if part.number == 2:
            config.pop(path[0], None)
            continue
        inner = config
        for name in path[:-1]:
            deeper = inner.get(name)
            if not isinstance(deeper, dict):
                deeper = inner[name] = {}
            inner = deeper
        if len(inner) < MAX_ITEMS:
            inner[path[-1]] = _parsed(value)


def _item(record: bytes, message: Field) -> tuple[list[str], bytes]:
    """Return (path of the key, JSON of the value) of a history or config item."""
    key = ""
    nested: list[str] = []
    value = b""
    for part in fields(record, message.start, message.end):
        if part.wire != BYTES:
            continue
        if part.number == 16:
            value = record[part.start : part.end]
        elif part.number == 1:
            key = record[part.start : min(part.end, part.start + MAX_KEY)].decode("utf-8", "replace")
        elif part.number == 2:
            nested.append(record[part.start : min(part.end, part.start + MAX_KEY)].decode("utf-8", "replace"))
    return (nested[:16] if nested else [key] if key else []), value


def _parsed(value: bytes) -> object:
    """Return a JSON value; NaN and Infinity are accepted, a broken one is None."""
    try:
        return orjson.loads(value)
    except ValueError:
        pass
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None
