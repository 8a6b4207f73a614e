"""A text file that another process writes to: whole lines as they come, through rotation, truncation and half lines."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PIECE = 2**20  # bytes read at a time
MAX_POLL = 64 * 2**20  # bytes taken in one poll; the rest comes with the next
MAX_LINE = 16 * 2**20  # bytes; a longer line is no log record (as in the readers of whole files)
MARK = 64  # bytes before the position that must still be there: a file written anew differs in them


@dataclass(frozen=True, slots=True)
class Polled:
    """What one poll brought.

    Attributes:
        lines: whole lines, without their ends.
        restarted: the file was replaced or cut and is read from its start again, before these lines.
        rotated: another file stands in its place; its lines follow those that were left of the old one.
        missing: there is no file now.
        skipped: lines that were longer than any record.
    """

    lines: tuple[bytes, ...] = ()
    restarted: bool = False
    rotated: bool = False
    missing: bool = False
    skipped: int = 0


class Tail:
    """Reads on where it stopped.

    Args:
        path: the file; it need not exist yet.
        at: position in bytes to start from, at the start of a line.
    """

    def __init__(self, path: Path, at: int = 0) -> None:
        self.path = path
        self.at = at
        self._rest = b""
        self._skipping = False
        self._mark = b""
        self._fd = -1

    def poll(self, upto: int | None = None) -> Polled:
        """Return the lines that were finished since the last poll; costs what is new, whatever the file holds.

        `upto` reads no further than that position in bytes.
        """
        if self._fd < 0 and not self._open():
            return Polled(missing=True)
        moved = self._moved()
        lines, skipped = self._read(upto)  # of a rotated file what was written before it went
        if not moved:
            return Polled(tuple(lines), skipped=skipped)
        self.close()
        self.at, self._rest, self._mark, self._skipping = 0, b"", b"", False
        if moved == "gone" or not self._open():
            return Polled(tuple(lines), skipped=skipped, missing=True)
        if moved == "rotated":  # the next file goes on: a new header is told by its content
            more, also = self._read()
            return Polled((*lines, *more), rotated=True, skipped=skipped + also)
        more, also = self._read()
        return Polled(tuple(more), True, skipped=also)

    def close(self) -> None:
        """Close the file; the next poll opens it again where it stood."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> bool:
        try:
            self._fd = os.open(self.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except OSError:
            return False
        begin = max(self.at - MARK, 0)
        self._mark = os.pread(self._fd, self.at - begin, begin)
        return True

    def _moved(self) -> str:
        """Return "rotated", "cut" or "gone" when the file under the path is another one than what was read, else ""."""
        mine = os.fstat(self._fd)
        begin = self.at - len(self._mark)
        if mine.st_size < self.at or os.pread(self._fd, len(self._mark), begin) != self._mark:
            return "cut"
        try:
            now = os.stat(self.path)
        except OSError:
            return "gone"
        return "" if (now.st_ino, now.st_dev) == (mine.st_ino, mine.st_dev) else "rotated"

    def _read(self, upto: int | None = None) -> tuple[list[bytes], int]:
        lines: list[bytes] = []
        taken = skipped = 0
        while taken < MAX_POLL:
            size = PIECE if upto is None else min(PIECE, max(upto - self.at, 0))
            piece = os.pread(self._fd, size, self.at)
            if not piece:
                break
            taken += len(piece)
            self.at += len(piece)
            self._mark = (self._mark + piece)[-MARK:]
            *whole, self._rest = (self._rest + piece).split(b"\n")
            if whole and self._skipping:
                whole, self._skipping = whole[1:], False
            lines += whole
            if len(self._rest) > MAX_LINE or self._skipping:
                skipped += not self._skipping
                self._rest, self._skipping = b"", True
        return [line.removesuffix(b"\r") for line in lines], skipped
