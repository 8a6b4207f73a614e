"""TFRecord framing: length, masked CRC-32C of the length, data, masked CRC-32C of the data; damage is skipped.

Source: tensorflow/core/lib/io/record_writer.h.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rlvitals.errors import InputError, Problem
from rlvitals.ingest.sources import MAX_STREAM, Source
from rlvitals.schema import Int64

CHUNK = 8 * 2**20  # bytes read at a time
MAX_RECORD = 64 * 2**20  # bytes; a longer record is no event (convention: TensorBoard's images stay far below)
HEADER, FOOTER = 12, 4  # bytes around a record's data
MAX_KNOWN = 4096  # record lengths whose checksum is remembered

_POLYNOMIAL = 0x82F63B78  # CRC-32C, reflected (definition)
_MASK_DELTA = 0xA282EAD8  # source: tensorflow/core/lib/hash/crc32c.h
_HEAD = struct.Struct("<QI")

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]


def _make_table() -> Words:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


TABLE: Words = _make_table()
_TABLE: tuple[int, ...] = tuple(TABLE.tolist())


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of a short record."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def mask(crc: int) -> int:
    """Return the masked checksum, as it stands in the file."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def unmask(stored: Words) -> Words:
    """Return the plain checksums of stored ones (uint32[N])."""
    rotated = stored - np.uint32(_MASK_DELTA)
    return (rotated >> np.uint32(17)) | (rotated << np.uint32(15))


class ChangeTables:
    """How a changed byte changes a record's checksum: the CRC is linear, so changes at several places add up (xor)."""

    def __init__(self) -> None:
        self._by_distance: list[Words] = [TABLE]

    def at(self, distance: int) -> Words:
        """Return uint32[256]: effect of xor-ing a byte that stands `distance` bytes before the record's last one."""
        while len(self._by_distance) <= distance:
            last = self._by_distance[-1]
            self._by_distance.append(TABLE[last & np.uint32(0xFF)] ^ (last >> np.uint32(8)))
        return self._by_distance[distance]


@dataclass(frozen=True)
class Frames:
    """Complete records in one piece of a file: int64[N] first bytes and lengths of their data."""

    data: bytes
    start: Int64
    length: Int64


@dataclass
class Damage:
    """What was skipped while a file was read."""

    skipped: int = 0  # bytes between readable records
    cut: bool = False  # the file ends inside a record


def records(source: Source, damage: Damage) -> Iterator[Frames]:
    """Yield the records of a file piece by piece; checks every length, leaves the data's checksum to the caller.

    Raises InputError above MAX_STREAM bytes.
    """
    known: dict[int, int] = {}
    rest, total = b"", 0
    with source.open() as stream:
        while True:
            try:
                more = stream.read(CHUNK)
            except (OSError, EOFError, ValueError):  # a cut-off archive: what came before it still counts
                more, damage.cut = b"", True
            total += len(more)
            if total > MAX_STREAM:
                raise InputError(Problem("file too large", source.name, f"more than {MAX_STREAM >> 30} GB"))
            data = rest + more if rest else more
            starts, lengths, used = _split(data, known, damage, final=not more)
            yield Frames(data, starts, lengths)
            rest = data[used:]
            if not more:
                damage.cut = damage.cut or bool(rest)
                return


def valid_header(data: bytes) -> bool:
    """True when a record begins here."""
    if len(data) < HEADER:
        return False
    length, stored = _HEAD.unpack_from(data, 0)
    return bool(length <= MAX_RECORD and mask(crc32c(data[:8])) == stored)


def _split(data: bytes, known: dict[int, int], damage: Damage, *, final: bool) -> tuple[Int64, Int64, int]:
    """Return the first bytes and lengths of the complete records, and how many bytes they take."""
    candidates = _headers(data)
    whole, sizes = _unbroken(data, candidates)
    starts, lengths = array("q"), array("q")
    unpack, size = _HEAD.unpack_from, len(data)
    at = int(whole[-1] + sizes[-1]) + FOOTER if whole.size else 0
    while at + HEADER <= size:
        length, stored = unpack(data, at)
        if known.get(length) != stored:
            if length > MAX_RECORD or mask(crc32c(data[at : at + 8])) != stored:
                goal = _next(candidates, at, max(size - HEADER + 1, at + 1))
                damage.skipped += goal - at
                at = goal
                continue
            if len(known) < MAX_KNOWN:
                known[length] = stored
        after = at + HEADER + length + FOOTER
        if after > size:
            goal = _next(candidates, at, -1) if final else -1
            if goal < 0:
                break
            damage.skipped += goal - at  # a writer died inside this record and another went on in the same file
            at = goal
            continue
        starts.append(at + HEADER)
        lengths.append(length)
        at = after
    more, their = np.frombuffer(starts, np.int64), np.frombuffer(lengths, np.int64)
    return np.concatenate([whole, more]), np.concatenate([sizes, their]), at


def _next(candidates: Int64, at: int, otherwise: int) -> int:
    """Return the first place after `at` where a record may begin."""
    index = int(np.searchsorted(candidates, at + 1))
    return int(candidates[index]) if index < candidates.size else otherwise


def _unbroken(data: bytes, candidates: Int64) -> tuple[Int64, Int64]:
    """Return the first bytes and lengths of the records that follow each other without a gap from byte 0 on."""
    if candidates.size == 0 or candidates[0] != 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    length = _low_words(data, candidates)
    after = candidates + (HEADER + FOOTER) + length
    linked = after[:-1] == candidates[1:]
    count = int(np.argmin(linked)) if not linked.all() else linked.size
    count += int(after[count] <= len(data))  # the last one of the chain may be cut
    return candidates[:count] + HEADER, length[:count]


def _low_words(data: bytes, at: Int64) -> Int64:
    """Return the uint32 at each place (int64[K]) as int64[K]."""
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), 4)
    return windows[at].view("<u4")[:, 0].astype(np.int64)


def _headers(data: bytes) -> Int64:
    """Return int64[K]: every place where a record that is not empty may begin, by the checksum of its length."""
    places: list[Int64] = []
    lengths: list[Int64] = []
    for offset in range(4):  # at each alignment: a low word that can be a length, and a high word of 0
        count = (len(data) - offset - (HEADER - 8)) // 4
        if count > 1:
            words = np.frombuffer(data, "<u4", count, offset)
            found = np.flatnonzero((words[1:] == 0) & (words[:-1] <= MAX_RECORD) & (words[:-1] != 0))
            places.append(4 * found + offset)
            lengths.append(words[found].astype(np.int64))
    if not places:
        return np.zeros(0, np.int64)
    at, low = np.concatenate(places), np.concatenate(lengths)
    crc = np.full(at.size, crc32c(bytes(8)), np.uint32)
    for i in range(4):
        crc ^= _LENGTH_CHANGES[i][(low >> (8 * i)) & 0xFF]
    stored = _low_words(data, at + 8).astype(np.uint32)
    return np.sort(at[unmask(stored) == crc])


_LENGTH_CHANGES: tuple[Words, ...] = tuple(ChangeTables().at(7 - i) for i in range(4))
