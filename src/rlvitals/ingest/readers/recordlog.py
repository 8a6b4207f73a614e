"""LevelDB's log format, which W&B and SwanLab use: 32 KiB blocks of records with checksum, length and type.

Source: wandb/sdk/internal/datastore.py (0.16) and swanlab/sdk/internal/core_python/store (0.10).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from rlvitals.errors import InputError, Problem
from rlvitals.ingest.sources import MAX_STREAM, Source
from rlvitals.schema import Note

BLOCK = 32768  # bytes
HEADER = struct.Struct("<IHB")  # checksum, length, type
IDENT_SIZE = 7  # bytes of the file's own header: name, magic number, version
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
MAX_RECORD = 64 * 2**20  # bytes; a longer record is no row of metrics


@dataclass
class Damage:
    """What was skipped while a file was read."""

    records: int = 0
    cut: bool = False  # the file ends inside a record

    def notes(self, name: str) -> Iterator[Note]:
        if self.records:
            yield Note("skipped damaged records", name, 0, self.records)
        if self.cut:
            yield Note("the file ends inside a record: the run was stopped, or it is still written to", name)


def records(source: Source, damage: Damage) -> Iterator[bytes]:
    """Yield whole records; damage costs at most the rest of its block. Raises InputError above MAX_STREAM bytes."""
    parts: list[bytes] = []
    size = total = 0
    with source.open() as stream:
        while block := _block(stream, damage):
            at = 0 if total else IDENT_SIZE
            total += len(block)
            if total > MAX_STREAM:
                raise InputError(Problem("file too large", source.name, f"more than {MAX_STREAM >> 30} GB"))
            for kind, data in _chunks(block, at, damage):
                if kind == 0:  # damage: what it belonged to is lost
                    parts = []
                    continue
                if kind in (FULL, FIRST):
                    parts, size = [], 0
                elif not parts:
                    continue  # the start of this record was damaged
                size += len(data)
                if size > MAX_RECORD:
                    parts = []
                    continue
                parts.append(data)
                if kind in (FULL, LAST):
                    yield b"".join(parts)
                    parts = []
    damage.cut = damage.cut or bool(parts)


def _chunks(block: bytes, at: int, damage: Damage) -> Iterator[tuple[int, bytes]]:
    """Yield (type, data) of the chunks in a block; type 0 stands for a damaged one, after which the block ends."""
    while at + HEADER.size <= len(block):
        checksum, length, kind = HEADER.unpack_from(block, at)
        if kind == 0 and length == 0 and checksum == 0:
            return  # the padding of a block, or a file that grew without being written
        at += HEADER.size
        data = block[at : at + length]
        at += length
        if len(data) < length and len(block) < BLOCK:
            damage.cut = True
            return
        if not FULL <= kind <= LAST or zlib.crc32(data, zlib.crc32(bytes([kind]))) != checksum:
            damage.records += 1
            yield 0, b""
            return
        yield kind, data


def _block(stream: IO[bytes], damage: Damage) -> bytes:
    try:
        return stream.read(BLOCK)
    except (OSError, EOFError, ValueError):  # a cut-off archive: what came before it still counts
        damage.cut = True
        return b""
