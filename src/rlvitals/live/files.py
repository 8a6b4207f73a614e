"""Append-only JSONL that survives a kill: one write per row, half lines cut off, a full disk waited out.

A row is in the page cache when `append` returns, so a killed process loses nothing that was logged; a machine that
loses power may lose the last seconds, as with any log that isn't synced row by row.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

import orjson

from rlvitals.live.trouble import Troubles

MAX_WAITING = 10_000  # rows held in memory while the disk takes none; older ones are lost and counted (convention)
PIECE = 2**20  # bytes read at a time

Place = tuple[int, int] | bytes
"""Where a line stands: (offset, length) in the file, or the line itself while it waits for the disk."""


class RowFile:
    """A JSONL file that one process appends to and reads back.

    Args:
        path: the file; None keeps the rows in a temporary file that vanishes with the process.
    """

    def __init__(self, path: Path | None, troubles: Troubles) -> None:
        self.path = path
        self._troubles = troubles
        self._waiting: deque[bytes] = deque()
        self._end = 0
        self._fd = -1
        try:
            self._fd = _temporary() if path is None else _open(path)
            self._end = self._repaired() if path is not None else 0
        except OSError as error:
            troubles.note("rows are kept in memory only: the file cannot be opened", error)
            self._close()

    def append(self, row: Mapping[str, object], step: int | None = None) -> None:
        """Write one row; one that the disk refuses waits in memory and is written before the next."""
        line = orjson.dumps(row, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY) + b"\n"
        if self._waiting:
            self._retry()
        if self._waiting or not self._write(line, step):
            self._waiting.append(line)
            if len(self._waiting) > MAX_WAITING:
                self._waiting.popleft()
                self._troubles.note("rows lost: the disk took none for too long", self.path or "temporary file", step)

    def places(self) -> Iterator[tuple[Place, bytes]]:
        """Yield each whole line with its place, oldest first."""
        at, rest = 0, b""
        while at + len(rest) < self._end:
            piece = os.pread(self._fd, min(PIECE, self._end - at - len(rest)), at + len(rest))
            if not piece:
                break
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield (at, len(line)), line
                at += len(line) + 1
        for line in self._waiting:
            yield line, line

    def line(self, place: Place) -> bytes:
        """Return the line at a place."""
        return place if isinstance(place, bytes) else os.pread(self._fd, place[1], place[0])

    @property
    def waiting(self) -> int:
        """Rows that the disk has not taken yet."""
        return len(self._waiting)

    def close(self) -> None:
        """Write what waits, if the disk takes it now, and close."""
        self._retry()
        if self._waiting and self.path is not None:
            self._troubles.note("rows lost: the disk took none", self.path, count=len(self._waiting))
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _retry(self) -> None:
        while self._waiting and self._write(self._waiting[0], None):
            self._waiting.popleft()

    def _write(self, line: bytes, step: int | None) -> bool:
        if self._fd < 0:
            return False
        try:
            written = os.pwrite(self._fd, line, self._end)
            if written < len(line):
                raise OSError(errno.ENOSPC, f"{written} of {len(line)} bytes written")
        except OSError as error:
            self._troubles.note("a row could not be written yet; it waits in memory", error, step)
            self._cut()
            return False
        self._end += written
        return True

    def _cut(self) -> None:
        """Take back a half-written line; the next write would stand on it otherwise."""
        try:
            os.ftruncate(self._fd, self._end)
        except OSError as error:
            self._troubles.note("a half-written row could not be taken back", error)

    def _repaired(self) -> int:
        """Cut off the half line of a process that was killed while writing; return the length of the whole lines."""
        size = os.fstat(self._fd).st_size
        at = size
        while at > 0:
            begin = max(at - PIECE, 0)
            piece = os.pread(self._fd, at - begin, begin)
            newline = piece.rfind(b"\n")
            if newline >= 0:
                at = begin + newline + 1
                break
            at = begin
        if at < size:
            os.ftruncate(self._fd, at)
            self._troubles.note("the step in flight was lost when the process was killed", f"{size - at} bytes cut off")
        return at


def _temporary() -> int:
    handle, name = tempfile.mkstemp(prefix="rlvitals-")
    os.unlink(name)
    return handle


def _open(path: Path) -> int:
    """Open a file for this process alone. Raises OSError, also when another process writes to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        pass  # no locks on this system
    except BlockingIOError as error:
        os.close(handle)
        raise OSError(errno.EBUSY, "another process writes to it", str(path)) from error
    except OSError:
        pass  # a file system without locks
    return handle
