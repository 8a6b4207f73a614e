"""TensorBoard event files: scalars decoded in bulk, a restart's file after the one before it, texts kept as config.

Events of one tag differ only in wall time, step and value. So the first event of each layout is parsed, and every
other record of the same length whose remaining bytes are the same is decoded by place, with numpy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rlvitals.ingest.longform import Rows, Series, rows_of, table_of
from rlvitals.ingest.readers.events import ParsedEvent, parse_event
from rlvitals.ingest.readers.protobuf import WireError
from rlvitals.ingest.readers.tfrecord import Bytes, ChangeTables, Damage, Frames, Words, crc32c, mask, records, unmask
from rlvitals.ingest.sources import Source
from rlvitals.ingest.table import RawTable
from rlvitals.schema import Float64, Int64, Note

MAX_LAYOUTS = 200  # tried per record length and piece of a file; what is left is parsed one by one
FEW = 6  # records of one length that are parsed one by one: quicker than in bulk
MAX_BULK = 4096  # bytes; longer records (texts, histograms) are parsed one by one
MAX_CHECKED = 5_000_000  # bytes of a record whose data's checksum is computed
MAX_TAGS = 20_000  # tags of one file; more are no metrics
MAX_FREE_TEXT = 1_000_000  # characters of texts that are no settings

_START = re.compile(r"tfevents\.(\d+)")


@dataclass
class _File:
    """What was read of one event file."""

    name: str
    started: float = 0.0
    series: dict[str, list[tuple[Int64, Int64, Float64]]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    hparams: dict[str, object] = field(default_factory=dict)
    damage: Damage = field(default_factory=Damage)
    bad: int = 0  # records that fail their checksum or are no events
    tags_left_out: int = 0
    records: int = 0


def read(source: Source) -> list[RawTable]:
    """Read one event file."""
    return read_files([source])


def read_files(sources: Sequence[Source]) -> list[RawTable]:
    """Read the event files of one run: files with common tags are one writer's starts, one after the other."""
    files = sorted((_read_file(source) for source in sources), key=lambda f: (f.started, f.name))
    chains: list[list[_File]] = []
    for file in files:
        chain = next((c for c in chains if any(set(file.series) & set(other.series) for other in c)), None)
        if chain is None:
            chains.append([file])
        else:
            chain.append(file)
    facts, text = _settings(files)
    written = [chain for chain in chains if any(file.series for file in chain)]
    return [_table(chain, text if i == 0 else "", facts if i == 0 else {}) for i, chain in enumerate(written)]


def _table(chain: list[_File], text: str, facts: dict[str, object]) -> RawTable:
    rows = [_rows(file) for file in chain]
    notes = [note for file in chain for note in _notes(file)]
    if len(chain) > 1:
        notes.append(Note(f"{len(chain)} event files of one run, read in the order of their start", chain[0].name))
    return table_of(rows, chain[0].name, notes=tuple(notes), text=text, facts=facts)


def _rows(file: _File) -> Rows:
    return rows_of({
        tag: Series(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))
        for tag, blocks in file.series.items()
    })  # fmt: skip


def _notes(file: _File) -> list[Note]:
    notes: list[Note] = []
    if file.damage.skipped:
        notes.append(Note(f"skipped {file.damage.skipped:,} damaged bytes between records", file.name))
    if file.bad:
        notes.append(Note("skipped records with a wrong checksum or no event in them", file.name, 0, file.bad))
    if file.damage.cut:
        notes.append(Note("the file ends inside a record: the writer was stopped, or the file is still written to",
                          file.name))  # fmt: skip
    if file.tags_left_out:
        notes.append(Note(f"values of tags after the first {MAX_TAGS:,}: left out", file.name, 0, file.tags_left_out))
    return notes


def _settings(files: list[_File]) -> tuple[dict[str, object], str]:
    """Return the settings written as texts or hyperparameters, and the other texts; the last start wins."""
    configs: dict[str, dict[str, object]] = {}
    free: list[str] = []
    for file in files:
        if file.hparams:
            configs["TensorBoard hparams"] = file.hparams
        for tag, text in file.texts.items():
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                value = None
            if isinstance(value, dict):
                configs[f"TensorBoard {tag}"] = value
            else:
                free.append(text)
    return ({"configs": configs} if configs else {}), "\n".join(free)[:MAX_FREE_TEXT]


def _read_file(source: Source) -> _File:
    named = _START.search(source.name)
    file = _File(source.name, float(named[1]) if named else 0.0)
    changes = ChangeTables()
    for frames in records(source, file.damage):
        if frames.start.size:
            if file.records == 0:
                _first_event(frames, file)
            _decode(frames, file, changes)
            file.records += frames.start.size
    return file


def _first_event(frames: Frames, file: _File) -> None:
    """Take the start time from the file's first event, which is written when the writer opens the file."""
    start, length = int(frames.start[0]), int(frames.length[0])
    try:
        event = parse_event(frames.data[start : start + length])
    except WireError:
        return
    if np.isfinite(event.wall_time) and event.wall_time > 0:
        file.started = event.wall_time


def _decode(frames: Frames, file: _File, changes: ChangeTables) -> None:
    """Decode a piece of a file, records of one length at a time."""
    padded = np.frombuffer(frames.data + bytes(16), np.uint8)
    by_length = np.argsort(frames.length, kind="stable")
    bounds = np.flatnonzero(np.diff(frames.length[by_length])) + 1
    for group in np.split(by_length, bounds):
        length = int(frames.length[group[0]])
        left = group
        if length <= MAX_BULK and group.size > FEW:
            left = _decode_bulk(frames, group, length, padded, file, changes)
        for index in left.tolist():
            at = int(frames.start[index])
            _decode_one(frames.data[at : at + length], frames.data[at + length : at + length + 4], file, index)


def _decode_bulk(frames: Frames, group: Int64, length: int, padded: Bytes, file: _File, changes: ChangeTables) -> Int64:
    """Decode the scalars among records of one length; return those that must be parsed one by one."""
    width = -(-(length + 4) // 8) * 8  # data and checksum, in whole words
    rows = np.lib.stride_tricks.sliding_window_view(padded, width)[frames.start[group]]
    words = rows.view(np.uint64)
    left = np.arange(group.size)
    single: list[int] = []
    for _ in range(MAX_LAYOUTS):
        if left.size == 0:
            break
        first = rows[left[0]]
        record = first[:length].tobytes()
        event = _sound(record, first[length : length + 4].tobytes())
        if event is None or not event.bulk:
            single.append(int(left[0]))
            left = left[1:]
            continue
        fixed = _fixed_bits(event, length, width).view(np.uint64)
        chosen = _alike(words, left, fixed)
        rest = np.ones(group.size, dtype=np.bool_)
        rest[chosen] = False
        left = left[rest[left]]
        block = rows if chosen.size == rows.shape[0] else rows[chosen]
        _take(block, record, event, file.records + group[chosen], file, changes)
    alone: Int64 = group[np.concatenate([np.array(single, dtype=np.int64), left])]
    return alone


def _alike(words: npt.NDArray[np.uint64], left: Int64, fixed: npt.NDArray[np.uint64]) -> Int64:
    """Return the records (of uint64[N, W]) whose fixed bits are those of the first one left."""
    first, chosen = words[left[0]], left
    for j in np.flatnonzero(fixed).tolist():
        chosen = chosen[((words[chosen, j] ^ first[j]) & fixed[j]) == 0]
    return chosen


def _fixed_bits(event: ParsedEvent, length: int, width: int) -> Bytes:
    """Return uint8[width]: the bits that every event of this layout has in common."""
    fixed = np.zeros(width, np.uint8)
    fixed[:length] = 0xFF
    fixed[slice(*event.wall_at)] = 0
    fixed[slice(*event.step_at)] = 0x80  # a varint's top bits say how long it is
    for scalar in event.scalars:
        fixed[scalar.place : scalar.place + np.dtype(scalar.kind).itemsize] = 0
    return fixed


def _take(rows: Bytes, record: bytes, event: ParsedEvent, order: Int64, file: _File, changes: ChangeTables) -> None:
    """Decode uint8[K, width] records of one layout by place, leaving out those with a wrong checksum."""
    length = len(record)
    good = _checksums(rows, record, event, changes) == unmask(_column(rows, length, "<u4"))
    if not good.all():
        file.bad += int(np.count_nonzero(~good))
        rows, order = rows[good], order[good]
    step = np.zeros(order.size, np.uint64)
    for shift, at in enumerate(range(*event.step_at)):
        step |= (rows[:, at] & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * shift)
    for scalar in event.scalars:
        with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN
            value = _column(rows, scalar.place, scalar.kind).astype(np.float64)
        _append(file, scalar.tag, order, step.view(np.int64), value)


def _column(rows: Bytes, at: int, kind: str) -> npt.NDArray[Any]:
    size = np.dtype(kind).itemsize
    return np.ascontiguousarray(rows[:, at : at + size]).view(kind)[:, 0]


def _checksums(rows: Bytes, record: bytes, event: ParsedEvent, changes: ChangeTables) -> Words:
    """Return uint32[K]: the CRC-32C of each record, from the first one's and the bytes that differ."""
    places = [*range(*event.wall_at), *range(*event.step_at)]
    for scalar in event.scalars:
        places += range(scalar.place, scalar.place + np.dtype(scalar.kind).itemsize)
    crc = np.full(rows.shape[0], crc32c(record), np.uint32)
    for at in places:
        crc ^= changes.at(len(record) - 1 - at)[rows[:, at] ^ np.uint8(record[at])]
    return crc


def _append(file: _File, tag: str, order: Int64, step: Int64, value: Float64) -> None:
    blocks = file.series.get(tag)
    if blocks is None:
        if len(file.series) >= MAX_TAGS:
            file.tags_left_out += order.size
            return
        blocks = file.series[tag] = []
    blocks.append((order, step, value))


def _sound(record: bytes, stored: bytes) -> ParsedEvent | None:
    """Return the event of a record; None when its checksum is wrong or it is no event."""
    if len(record) <= MAX_CHECKED and mask(crc32c(record)) != int.from_bytes(stored, "little"):
        return None
    try:
        return parse_event(record)
    except WireError:
        return None


def _decode_one(record: bytes, stored: bytes, file: _File, index: int) -> None:
    event = _sound(record, stored)
    if event is None:
        file.bad += 1
        return
    order = np.array([file.records + index], dtype=np.int64)
    for scalar in event.scalars:
        _append(file, scalar.tag, order, np.array([event.step], dtype=np.int64), np.array([scalar.value]))
    for tag, text in event.texts:
        file.texts[tag] = text
    if event.hparams:
        file.hparams = event.hparams
