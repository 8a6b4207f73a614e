"""The protobuf wire format, as far as logs need it: fields of a message, varints, strings; no schema, no code run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types; source: protobuf encoding specification
MAX_VARINT = 10  # bytes of the longest varint (64 bits in groups of 7)


class WireError(ValueError):
    """Bytes that are no protobuf message."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: [start, end) are its content's bytes; `value` is the number of a varint field, else 0."""

    number: int
    wire: int
    start: int
    end: int
    value: int = 0


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return (value, position after it). Raises WireError when it does not end before `end` or in 10 bytes."""
    value = shift = 0
    for place in range(at, min(end, at + MAX_VARINT)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise WireError("a varint does not end")


def fields(data: bytes, start: int, end: int) -> Iterator[Field]:
    """Yield the fields of the message in data[start:end]. Raises WireError at the first malformed one."""
    at = start
    while at < end:
        key, at = varint(data, at, end)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise WireError("field number 0")
        if wire == VARINT:
            first = at
            value, at = varint(data, at, end)
            yield Field(number, wire, first, at, value)
            continue
        if wire == BYTES:
            length, at = varint(data, at, end)
        elif wire == FIXED64:
            length = 8
        elif wire == FIXED32:
            length = 4
        else:
            raise WireError(f"wire type {wire}")
        if at + length > end:
            raise WireError("a field runs past its message")
        yield Field(number, wire, at, at + length)
        at += length


def signed(value: int) -> int:
    """Return a varint's value as an int64."""
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value
