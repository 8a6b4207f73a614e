"""SwanLab's local run-*.swanlab files: scalars and how the run ended. Its config lies beside, in files/config.yaml.

Source: swanlab/proto/swanlab (0.10): Record, ScalarRecord, FinishRecord.
"""

from __future__ import annotations

import struct

import numpy as np

from rlvitals.errors import InputError, Problem
from rlvitals.ingest.longform import Series, rows_of, table_of
from rlvitals.ingest.readers.protobuf import BYTES, FIXED64, VARINT, Field, WireError, fields, signed
from rlvitals.ingest.readers.recordlog import Damage, records
from rlvitals.ingest.sources import SWANLAB, Source
from rlvitals.ingest.table import RawTable
from rlvitals.schema import Event, EventKind

VERSION = 2  # of the file format, that of SwanLab 0.10
HEAD = struct.Struct("<4sHB")  # ":SWL", magic number, version
SYSTEM = "__swanlab__"  # prefix of hardware metrics
MAX_KEY = 1000  # bytes
MAX_KEYS = 20_000

_SCALAR, _FINISH = 13, 11  # fields of Record
_FINISHED, _CRASHED, _ABORTED = 1, 2, 3  # RunState

Logged = dict[str, tuple[list[int], list[int], list[float]]]  # key -> order, steps, values


def read(source: Source) -> list[RawTable]:
    """Read one .swanlab file. Raises InputError for a file of a format version that is not known."""
    head = source.head()[: HEAD.size]
    version = HEAD.unpack(head)[2] if len(head) == HEAD.size else 0
    if not head.startswith(SWANLAB) or version != VERSION:
        raise InputError(
            Problem("this SwanLab file is of another format version", source.name, str(version), str(VERSION))
        )
    damage = Damage()
    logged: Logged = {}
    state = 0
    for number, record in enumerate(records(source, damage)):
        try:
            for part in fields(record, 0, len(record)):
                if part.wire == BYTES and part.number == _SCALAR:
                    _scalar(record, part, number, logged)
                elif part.wire == BYTES and part.number == _FINISH:
                    inner = fields(record, part.start, part.end)
                    state = next((f.value for f in inner if f.number == 1 and f.wire == VARINT), 0)
        except WireError:
            damage.records += 1
    if not logged:
        return []
    rows = rows_of({
        key: Series(np.array(order, dtype=np.int64), np.array(step, dtype=np.int64), np.array(value))
        for key, (order, step, value) in logged.items()
    })  # fmt: skip
    return [table_of([rows], source.name, notes=tuple(damage.notes(source.name)), events=_ending(state))]


def _scalar(record: bytes, message: Field, number: int, logged: Logged) -> None:
    key, step, value = "", 0, 0.0
    for part in fields(record, message.start, message.end):
        if part.number == 1 and part.wire == BYTES:
            key = record[part.start : min(part.end, part.start + MAX_KEY)].decode("utf-8", "replace")
        elif part.number == 2 and part.wire == VARINT:
            step = signed(part.value)
        elif part.number == 5 and part.wire == BYTES:
            for inner in fields(record, part.start, part.end):
                if inner.number == 1 and inner.wire == FIXED64:
                    value = struct.unpack_from("<d", record, inner.start)[0]
    if key and not key.startswith(SYSTEM) and (key in logged or len(logged) < MAX_KEYS):
        order, steps, values = logged.setdefault(key, ([], [], []))
        order.append(number)
        steps.append(step)
        values.append(value)


def _ending(state: int) -> tuple[Event, ...]:
    if state == _FINISHED:
        return (Event(EventKind.FINISHED, None, "SwanLab's run state is finished"),)
    if state in (_CRASHED, _ABORTED):
        word = "crashed" if state == _CRASHED else "aborted"
        return (Event(EventKind.CRASH, None, f"SwanLab's run state is {word}"),)
    return ()
