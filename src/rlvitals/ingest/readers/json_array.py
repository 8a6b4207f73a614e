"""One JSON document: trainer_state.json, an array of records, or an object of columns."""

from __future__ import annotations

import orjson

from rlvitals.errors import InputError, Problem
from rlvitals.ingest.readers import jsonl
from rlvitals.ingest.sources import Source
from rlvitals.ingest.table import RawTable, TableBuilder
from rlvitals.schema import Note

RECORD_LISTS = ("log_history", "history", "metrics", "logs", "records", "steps", "data", "train", "training")
TRAINER_STATE_FACTS = ("max_steps", "logging_steps", "global_step", "num_train_epochs", "train_batch_size")


def read(source: Source) -> list[RawTable]:
    """Read a JSON document; falls back to JSON lines. Raises InputError when it holds no records."""
    data = source.read()
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        data = data.decode("utf-16", "replace").encode()
    data = data.removeprefix(b"\xef\xbb\xbf")
    notes: tuple[Note, ...] = ()
    try:
        value, broken = jsonl.parse_line(data)
        if broken:
            notes = (Note("replaced bytes that are no UTF-8", source.name),)
    except ValueError as error:
        return _broken(source, data, error)
    del data
    facts: dict[str, object] = {}
    if isinstance(value, dict):
        facts = {name: value[name] for name in TRAINER_STATE_FACTS if name in value and "log_history" in value}
        value = _records_in(value)
    if isinstance(value, dict):
        return [_columns(value, source.name, notes)]
    if not isinstance(value, list):
        raise InputError(Problem("no records", source.name, type(value).__name__, "a list of step records"))
    builder = TableBuilder(source.name)
    for i, row in enumerate(value):
        if isinstance(row, dict):
            builder.add(row, i + 1)
    return [builder.build(notes, facts=facts)]


def _records_in(value: dict[str, object]) -> object:
    """Return the list of records inside an object, or the object itself."""
    for name in RECORD_LISTS:
        found = value.get(name)
        if isinstance(found, list) and (not found or isinstance(found[0], dict)):
            return found
        if isinstance(found, dict) and any(isinstance(item, list) for item in found.values()):
            return found
    lists = [item for item in value.values() if isinstance(item, list) and item and isinstance(item[0], dict)]
    if len(lists) == 1:
        return lists[0]
    rows = list(value.items())
    if len(rows) > 1 and all(name.isdigit() and isinstance(item, dict) for name, item in rows):
        return [{"step": int(name), **item} for name, item in rows if isinstance(item, dict)]
    return value


def _columns(value: dict[str, object], name: str, notes: tuple[Note, ...]) -> RawTable:
    """Read an object of equally long lists as columns."""
    lists = {key: item for key, item in value.items() if isinstance(item, list)}
    n = max((len(item) for item in lists.values()), default=0)
    builder = TableBuilder(name)
    if not n:
        builder.add(value, 1)  # one summary record; it fails later with a better message than here
        return builder.build(notes)
    lengths = {len(item) for item in lists.values()}
    if len(lengths) > 1:
        notes = (
            *notes,
            Note(f"columns of different lengths ({min(lengths)} to {max(lengths)}); read up to the longest", name),
        )
    for i in range(n):
        builder.add({key: item[i] for key, item in lists.items() if i < len(item)}, i + 1)
    return builder.build(notes)


def _broken(source: Source, data: bytes, error: ValueError) -> list[RawTable]:
    """Save what a cut-off or line-wise document still holds."""
    lines = [(i + 1, line) for i, line in enumerate(data.split(b"\n"))]
    table = jsonl.read_lines(lines, source.name)
    if table.rows:
        return [table]
    rows = _rescue(data)
    if not rows:
        raise InputError(Problem("broken JSON", source.name, str(error)[:200], "a complete JSON document")) from error
    builder = TableBuilder(source.name)
    for i, row in enumerate(rows):
        builder.add(row, i + 1)
    return [
        builder.build(
            (Note(f"the file is cut off; read the {len(rows)} complete records before the cut", source.name),)
        )
    ]


def _rescue(data: bytes) -> list[dict[str, object]]:
    """Return the complete flat records of a truncated array."""
    start = data.find(b"[")
    rows: list[dict[str, object]] = []
    position = data.find(b"{", max(start, 0))
    while position >= 0:
        end = data.find(b"}", position)
        if end < 0:
            break
        try:
            row = orjson.loads(data[position : end + 1])
        except orjson.JSONDecodeError:
            row = None
        if isinstance(row, dict):
            rows.append(row)
        position = data.find(b"{", end)
    return rows
