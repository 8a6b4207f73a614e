"""What is new in the files of a dump since they were last read: the end of a JSON-lines file, and further files.

The new lines of a file are copied to a file under the same name in a temporary folder and go through the dump's own
reader; what comes out carries the name and the row of the file that they stand in.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rlvitals.errors import InputError
from rlvitals.rollouts.dump import Rollouts
from rlvitals.rollouts.skips import Skips
from rlvitals.rollouts.table import FILE, ROW, Batch

LINES = frozenset({".jsonl", ".ndjson"})  # files that grow by whole lines
PIECE = 32 * 2**20  # bytes that are copied and read at a time
MARK = 64  # bytes before the position that must still be there: a file written anew differs in them
YOUNG = 30.0  # seconds during which a file that does not grow by lines may still be being written (convention)
BROKEN_LINES = "lines that are broken or hold nothing known: left out"  # counted as rows by readers of flat dumps
NO_LINES = "lines without any known value: left out"  # the same of all that was read at once
UNREADABLE = "files that can't be read: left out"


@dataclass(frozen=True, slots=True)
class At:
    """How far a file has been read.

    Attributes:
        at: bytes; `rows` rollouts stand before.
        mark: the bytes before `at`.
        size, changed: of the file when it was looked at, in bytes and nanoseconds.
        sealed: read to its end though no line end stands there.
    """

    at: int = 0
    rows: int = 0
    mark: bytes = b""
    size: int = -1
    changed: int = -1
    sealed: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a file of lines, or a whole file of another kind."""

    path: Path
    begin: int
    end: int
    whole: bool = False


class Grown:
    """Tells what is new in files and reads it.

    Args:
        by_lines: whether files of lines may be read on; else every file is read as a whole.
    """

    def __init__(self, by_lines: bool = True) -> None:
        self._by_lines = by_lines
        self._known: dict[Path, At] = {}
        self.error: InputError | None = None  # of the last file that could not be read

    def grows_by_lines(self, path: Path) -> bool:
        return self._by_lines and path.suffix in LINES

    def still_holds(self, files: Sequence[Path]) -> bool:
        """True when what was read of every file stands in it unchanged, so that reading may go on."""
        there = frozenset(files)
        return all(path in there and self._unchanged(path, at) for path, at in self._known.items())

    def new(self, files: Sequence[Path]) -> Iterator[tuple[Piece, ...]]:
        """Yield what is new in order of files, in bundles of about PIECE bytes that the reader takes at once."""
        held: list[Piece] = []
        size = 0
        for n, path in enumerate(files):
            for piece in self._pieces(path, last=n == len(files) - 1):
                bytes_ = piece.end - piece.begin
                if held and (piece.whole is not held[0].whole or size + bytes_ > PIECE or held[-1].path == path):
                    yield tuple(held)
                    held, size = [], 0
                held.append(piece)
                size += bytes_
        if held:
            yield tuple(held)

    def unfinished(self, files: Sequence[Path]) -> list[Piece]:
        """Return what may still be being written: last lines without an end, young files of other kinds."""
        out = []
        for path in files:
            found = _stat(path)
            known = self._known.get(path, At())
            if found is None:
                continue
            if not self.grows_by_lines(path):
                if path not in self._known:
                    out.append(Piece(path, 0, found.st_size, whole=True))
            elif known.at < known.size:
                out.append(Piece(path, known.at, known.size))
        return out

    def read(self, rollouts: Rollouts, bundle: Sequence[Piece], columns: Sequence[str], skips: Skips) -> list[Batch]:
        """Return the rollouts of pieces that are read for good. Files that can't be read are counted in `skips`."""
        self.done(bundle)
        batches, rows = self._through(rollouts, bundle, columns, skips)
        for piece in bundle:
            known = self._known.get(piece.path, At())
            if piece.whole:
                continue
            mark = _bytes(piece.path, max(piece.end - MARK, 0), piece.end)
            sealed = not mark.endswith(b"\n")
            total = known.rows + rows.get(piece.path, 0)
            self._known[piece.path] = replace(known, at=piece.end, rows=total, mark=mark, sealed=sealed)
        return batches

    def done(self, bundle: Sequence[Piece]) -> None:
        """Note that whole files are read, as they are now."""
        for piece in bundle:
            found = _stat(piece.path)
            if piece.whole and found is not None:
                self._known[piece.path] = At(piece.end, 0, b"", found.st_size, found.st_mtime_ns, sealed=True)

    def peek(self, rollouts: Rollouts, pieces: Sequence[Piece], columns: Sequence[str], skips: Skips) -> list[Batch]:
        """Return the rollouts of pieces that will be read again."""
        out: list[Batch] = []
        for whole in (True, False):
            chosen = [p for p in pieces if p.whole is whole]
            if chosen:
                out += self._through(rollouts, chosen, columns, skips)[0]
        return out

    def _pieces(self, path: Path, *, last: bool) -> Iterator[Piece]:
        found, known = _stat(path), self._known.get(path)
        if found is None:
            return
        if not self.grows_by_lines(path):
            if known is None and time.time() - found.st_mtime > YOUNG:
                yield Piece(path, 0, found.st_size, whole=True)
            return
        same = known is not None and (known.size, known.changed) == (found.st_size, found.st_mtime_ns)
        known = known or At()
        if same and (last or known.at == found.st_size):
            return
        self._known[path] = replace(known, size=found.st_size, changed=found.st_mtime_ns)
        end = found.st_size if same else _last_line_end(path, known.at, found.st_size)
        at = known.at
        while at < end:
            upto = end if end - at <= PIECE else _last_line_end(path, at, at + PIECE)
            upto = upto if upto > at else end  # a line longer than a piece
            yield Piece(path, at, upto)
            at = upto

    def _unchanged(self, path: Path, known: At) -> bool:
        found = _stat(path)
        if found is None:
            return False
        if (found.st_size, found.st_mtime_ns) == (known.size, known.changed):
            return True
        if known.sealed or found.st_size < known.at:
            return False
        return _bytes(path, known.at - len(known.mark), known.at) == known.mark

    def _through(
        self, rollouts: Rollouts, pieces: Sequence[Piece], columns: Sequence[str], skips: Skips
    ) -> tuple[list[Batch], dict[Path, int]]:
        """Read pieces with the dump's reader; return batches in terms of the real files, and rows per file."""
        mine = Skips()
        request = rollouts.request(columns, skips=mine)
        with tempfile.TemporaryDirectory(prefix="rlvitals-") as folder:
            back: dict[str, tuple[Path, int]] = {}
            for piece in pieces:
                base = 0 if piece.whole else self._known.get(piece.path, At()).rows
                back[str(piece.path if piece.whole else _copied(piece, Path(folder)))] = (piece.path, base)
            try:
                batches = [_renamed(b, back) for b in rollouts.reader.read([Path(name) for name in back], request)]
            except InputError as error:
                self.error = error
                batches = []
                for piece in pieces:
                    mine.add(UNREADABLE, str(piece.path))
        rows: dict[Path, int] = {}
        for batch in batches:
            _count(batch, rows)
        for (reason, name), (count, row) in mine.found.items():
            path, base = back.get(name, (Path(name), 0))
            reason = BROKEN_LINES if reason == NO_LINES else reason
            skips.add(reason, str(path) if name else "", row + base if row >= 0 else row, count)
            if reason == BROKEN_LINES:
                rows[path] = rows.get(path, 0) + count
        return batches, rows


def _copied(piece: Piece, folder: Path) -> Path:
    """Copy bytes of a file under its own path below a folder: readers take a step from names and folders."""
    target = folder / piece.path.absolute().relative_to(piece.path.absolute().anchor)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(_bytes(piece.path, piece.begin, piece.end))
    return target


def _renamed(batch: Batch, back: Mapping[str, tuple[Path, int]]) -> Batch:
    """Return a batch with the files and rows that its rollouts really stand in."""
    columns = dict(batch.columns)
    path, base = back.get(batch.source, (Path(batch.source), 0))
    if FILE in columns:
        names, at = np.unique(batch.text(FILE).astype(str), return_inverse=True)
        real = [back.get(str(name), (Path(str(name)), 0)) for name in names]
        columns[FILE] = np.array([str(p) for p, _ in real], dtype=object)[at]
        columns[ROW] = batch.integer(ROW) + np.array([b for _, b in real], dtype=np.int64)[at]
    elif ROW in columns:
        columns[ROW] = batch.integer(ROW) + base
    return replace(batch, columns=columns, source=str(path), first_row=batch.first_row + base)


def _count(batch: Batch, rows: dict[Path, int]) -> None:
    if FILE not in batch.columns:
        rows[Path(batch.source)] = rows.get(Path(batch.source), 0) + batch.rows
        return
    for name, count in zip(*np.unique(batch.text(FILE).astype(str), return_counts=True), strict=True):
        rows[Path(str(name))] = rows.get(Path(str(name)), 0) + int(count)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _bytes(path: Path, begin: int, end: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(begin)
            return file.read(max(end - begin, 0))
    except OSError:
        return b""


def _last_line_end(path: Path, begin: int, end: int) -> int:
    """Return the position after the last line end between two positions, `begin` where there is none."""
    at = end
    while at > begin:
        start = max(at - 2**16, begin)
        found = _bytes(path, start, at).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return begin


__all__ = ["At", "Grown", "Piece"]
