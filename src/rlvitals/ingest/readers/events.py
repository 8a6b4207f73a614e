"""One TensorBoard event: step, scalars, texts and hyperparameters, and where its varying bytes stand (Layout).

Source: tensorboard/compat/proto/{event,summary,tensor,types}.proto and plugins/hparams/plugin_data.proto.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from rlvitals.ingest.readers.protobuf import BYTES, FIXED32, FIXED64, VARINT, Field, WireError, fields, signed, varint

MAX_TAG = 1000  # bytes; a longer tag is no metric name
MAX_TEXT = 5_000_000  # bytes of one text value
MAX_VALUES = 100_000  # scalars in one event
FLOAT, DOUBLE = "<f4", "<f8"  # numpy names of the two kinds that have a fixed place

_DT_FLOAT, _DT_DOUBLE, _DT_STRING, _DT_HALF, _DT_BFLOAT16 = 1, 2, 7, 19, 14
_DT_WHOLE = {3: "<i4", 4: "<u1", 5: "<i2", 6: "<i1", 9: "<i8", 10: "<u1", 17: "<u2", 22: "<u4", 23: "<u8"}
_MAX_NESTING = 8  # of a hyperparameter value


@dataclass(slots=True)
class Scalar:
    """One value; `place` is the offset of its bytes in the record, -1 where it has no fixed one."""

    tag: str
    value: float
    kind: str = ""
    place: int = -1


@dataclass(slots=True)
class ParsedEvent:
    """What one record holds. `step_at` and `wall_at` are [start, end) of these bytes, (0, 0) where absent."""

    step: int = 0
    step_at: tuple[int, int] = (0, 0)
    wall_at: tuple[int, int] = (0, 0)
    wall_time: float = 0.0
    version: str = ""
    scalars: list[Scalar] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)
    hparams: dict[str, object] = field(default_factory=dict)

    @property
    def bulk(self) -> bool:
        """True when every event of the same layout can be decoded by place."""
        return bool(self.scalars) and not self.texts and all(s.place >= 0 for s in self.scalars)


def parse_event(record: bytes) -> ParsedEvent:
    """Return what an event holds. Raises WireError."""
    event = ParsedEvent()
    for part in fields(record, 0, len(record)):
        if part.number == 1 and part.wire == FIXED64:
            event.wall_at = (part.start, part.end)
            event.wall_time = _double(record, part.start)
        elif part.number == 2 and part.wire == VARINT:
            event.step, event.step_at = signed(part.value), (part.start, part.end)
        elif part.number == 3 and part.wire == BYTES:
            event.version = _text(record, part, 64)
        elif part.number == 5 and part.wire == BYTES:
            for value in fields(record, part.start, part.end):
                if value.number == 1 and value.wire == BYTES:
                    _value(record, value, event)
    return event


def _value(record: bytes, message: Field, event: ParsedEvent) -> None:
    tag = ""
    found: Scalar | None = None
    text: str | None = None
    for part in fields(record, message.start, message.end):
        if part.number == 1 and part.wire == BYTES:
            tag = _text(record, part, MAX_TAG)
        elif part.number == 2 and part.wire == FIXED32:
            found = Scalar("", struct.unpack_from("<f", record, part.start)[0], FLOAT, part.start)
        elif part.number == 8 and part.wire == BYTES:
            found, text = _tensor(record, part)
        elif part.number == 9 and part.wire == BYTES:
            event.hparams.update(_hparams(record, part))
    if found is not None and tag and len(event.scalars) < MAX_VALUES:
        found.tag = tag
        event.scalars.append(found)
    elif text is not None and tag:
        event.texts.append((tag, text))


def _tensor(record: bytes, message: Field) -> tuple[Scalar | None, str | None]:
    """Return a tensor of one element as a scalar, or its first string."""
    dtype, size = 0, 1
    content: Field | None = None
    values: dict[int, Field] = {}
    for part in fields(record, message.start, message.end):
        if part.number == 1 and part.wire == VARINT:
            dtype = part.value
        elif part.number == 2 and part.wire == BYTES:
            size = _elements(record, part)
        elif part.number == 4 and part.wire == BYTES:
            content = part
        else:
            values.setdefault(part.number, part)
    if size != 1:
        return None, None
    if dtype == _DT_STRING:
        first = values.get(8)
        return None, _text(record, first, MAX_TEXT) if first is not None and first.wire == BYTES else None
    return _number(record, dtype, content, values), None


def _number(record: bytes, dtype: int, content: Field | None, values: dict[int, Field]) -> Scalar | None:
    formats = {_DT_FLOAT: ("<f", FLOAT, 5), _DT_DOUBLE: ("<d", DOUBLE, 6)}
    if dtype in formats:
        code, kind, number = formats[dtype]
        place = content if content is not None else values.get(number)
        if place is None:
            return Scalar("", 0.0)  # proto3 leaves out a zero
        if place.end - place.start != struct.calcsize(code) or place.wire == VARINT:
            return None
        return Scalar("", struct.unpack_from(code, record, place.start)[0], kind, place.start)
    if dtype in (_DT_HALF, _DT_BFLOAT16):
        return _half(record, dtype, content, values.get(13))
    if dtype in _DT_WHOLE:
        if content is not None:
            raw = record[content.start : content.end]
            signed_type = _DT_WHOLE[dtype][1] == "i"
            return Scalar("", float(int.from_bytes(raw, "little", signed=signed_type))) if len(raw) <= 8 else None
        part = next((values[n] for n in (7, 10, 11, 16, 17) if n in values), None)
        return Scalar("", float(signed(_first_varint(record, part)))) if part is not None else Scalar("", 0.0)
    return None


def _half(record: bytes, dtype: int, content: Field | None, listed: Field | None) -> Scalar | None:
    if content is not None:
        raw = record[content.start : content.end]
    else:
        raw = (_first_varint(record, listed) & 0xFFFF).to_bytes(2, "little") if listed is not None else b"\0\0"
    if len(raw) != 2:
        return None
    return Scalar("", struct.unpack("<f", b"\0\0" + raw)[0] if dtype == _DT_BFLOAT16 else struct.unpack("<e", raw)[0])


def _first_varint(record: bytes, part: Field) -> int:
    return part.value if part.wire == VARINT else varint(record, part.start, part.end)[0]


def _elements(record: bytes, shape: Field) -> int:
    size = 1
    for dim in fields(record, shape.start, shape.end):
        if dim.number == 2 and dim.wire == BYTES:
            extent = next((f.value for f in fields(record, dim.start, dim.end) if f.number == 1), 0)
            size *= min(extent, 2**31)
    return size


def _hparams(record: bytes, metadata: Field) -> dict[str, object]:
    """Return the hyperparameters of a session start: metadata > plugin data > content > map of values."""
    out: dict[str, object] = {}
    for plugin in fields(record, metadata.start, metadata.end):
        if plugin.number != 1 or plugin.wire != BYTES:
            continue
        parts = {f.number: f for f in fields(record, plugin.start, plugin.end) if f.wire == BYTES}
        if 1 not in parts or 2 not in parts or record[parts[1].start : parts[1].end] != b"hparams":
            continue
        for start in fields(record, parts[2].start, parts[2].end):
            if start.number == 3 and start.wire == BYTES:
                for entry in fields(record, start.start, start.end):
                    if entry.number == 1 and entry.wire == BYTES:
                        _hparam(record, entry, out)
    return out


def _hparam(record: bytes, entry: Field, out: dict[str, object]) -> None:
    parts = {f.number: f for f in fields(record, entry.start, entry.end) if f.wire == BYTES}
    if 1 in parts and 2 in parts:
        out[_text(record, parts[1], MAX_TAG)] = _struct_value(record, parts[2], 0)


def _struct_value(record: bytes, message: Field, depth: int) -> object:
    """Return a google.protobuf.Value of a plain kind; None for null and for what is nested too deeply."""
    for part in fields(record, message.start, message.end):
        if part.number == 2 and part.wire == FIXED64:
            value = _double(record, part.start)
            return int(value) if value.is_integer() and abs(value) < 2**53 else value
        if part.number == 3 and part.wire == BYTES:
            return _text(record, part, MAX_TEXT)
        if part.number == 4 and part.wire == VARINT:
            return bool(part.value)
        if part.number == 6 and part.wire == BYTES and depth < _MAX_NESTING:
            items = fields(record, part.start, part.end)
            return [_struct_value(record, f, depth + 1) for f in items if f.wire == BYTES]
    return None


def _double(record: bytes, at: int) -> float:
    value: float = struct.unpack_from("<d", record, at)[0]
    return value


def _text(record: bytes, part: Field, limit: int) -> str:
    return record[part.start : min(part.end, part.start + limit)].decode("utf-8", "replace")


__all__ = ["DOUBLE", "FLOAT", "ParsedEvent", "Scalar", "WireError", "parse_event"]
