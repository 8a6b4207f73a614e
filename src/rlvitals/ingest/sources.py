"""Byte streams behind the paths a user names: files, stdin, gzip and zstd; pointers and binaries are refused."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from rlvitals.errors import InputError, Problem

STDIN = "-"
MAX_WHOLE = 512 * 2**20  # bytes; largest file of a format that must be read at once (JSON, notebook)
MAX_STREAM = 16 * 2**30  # bytes after decompression; largest streamed file, stops decompression bombs
MAX_LINE = 16 * 2**20  # bytes; a longer line is no log record
PIECE = 2**20  # bytes read at a time
HEAD = 4096  # bytes looked at to tell what a file is

_LFS = b"version https://git-lfs.github.com/spec/"
SQLITE, WANDB, SWANLAB = b"SQLite format 3\x00", b":W&B", b":SWL"  # first bytes
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_BINARY: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a zip archive (torch.save writes these)"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"\x89PNG", "an image"),
    (b"%PDF", "a PDF document"),
)
_REFUSED_SUFFIXES = {".pt", ".pth", ".bin", ".pkl", ".pickle", ".safetensors", ".ckpt", ".joblib"}
_READABLE = "a log as JSON, JSONL, CSV, parquet, console text, notebook, TensorBoard events, .wandb, .swanlab, SQLite"
_RECORDS = (b"PAR1", b"\xff\xfe", b"\xfe\xff", SQLITE, WANDB, SWANLAB)  # binary content that has a reader


@dataclass(frozen=True)
class Source:
    """One named input; `data` holds it where it cannot be opened twice (stdin).

    `select` is the run that the user named in a file of several runs (mlflow.db#RUN), "" for none.
    """

    name: str
    path: Path | None = None
    data: bytes | None = None
    select: str = ""
    damage: list[str] = field(default_factory=list, compare=False)  # what broke off a compressed stream, while read

    def open(self) -> IO[bytes]:
        """Open the decompressed stream. Raises InputError when it cannot be read."""
        if self.data is not None:
            return _decompressed(io.BytesIO(self.data), self.data[:4], self.damage)
        assert self.path is not None  # a source has a path or data
        try:
            stream = self.path.open("rb")
        except OSError as error:
            raise InputError(Problem("cannot open", self.name, error.strerror or str(error))) from error
        magic = stream.read(4)
        stream.seek(0)
        return _decompressed(stream, magic, self.damage)

    def compressed(self) -> bool:
        """True for gzip and zstd content, whatever the name says."""
        if self.data is not None:
            return self.data.startswith((_GZIP, _ZSTD))
        with self.path.open("rb") as stream:  # type: ignore[union-attr]  # a source has a path or data
            return stream.read(4).startswith((_GZIP, _ZSTD))

    def head(self) -> bytes:
        with self.open() as stream:
            try:
                return stream.read(HEAD)
            except (OSError, EOFError, ValueError) as error:
                raise InputError(
                    Problem("cannot decompress", self.name, str(error)[:200], "a whole gzip or zstd file")
                ) from error

    def read(self, limit: int = MAX_WHOLE) -> bytes:
        """Return the whole content. Raises InputError above `limit` bytes."""
        with self.open() as stream:
            try:
                data = read_up_to(stream, limit + 1)
            except (OSError, EOFError, ValueError) as error:
                raise InputError(
                    Problem("cannot decompress", self.name, str(error)[:200], "a whole gzip or zstd file")
                ) from error
        if len(data) > limit:
            raise InputError(
                Problem("file too large", self.name, f"more than {limit >> 20} MB", f"at most {limit >> 20} MB")
            )
        return data

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield (line number, line without its end); lines above MAX_LINE come cut."""
        total = 0
        number = 0
        with self.open() as stream:
            if self.head()[:2] in (b"\xff\xfe", b"\xfe\xff"):  # PowerShell's `>` writes UTF-16
                stream = io.BytesIO(read_up_to(stream, MAX_WHOLE).decode("utf-16", "replace").encode())
            while True:
                try:
                    line = stream.readline(MAX_LINE)
                except (OSError, EOFError, ValueError):  # a cut-off archive: what came before it still counts
                    return
                if not line:
                    return
                number += 1
                total += len(line)
                if total > MAX_STREAM:
                    raise InputError(Problem("file too large", self.name, f"more than {MAX_STREAM >> 30} GB"))
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                yield number, line.rstrip(b"\r\n")


def read_up_to(stream: IO[bytes], limit: int) -> bytes:
    """Return at most `limit` bytes, piece by piece: one `read(limit)` would allocate that much for a small file."""
    pieces: list[bytes] = []
    left = limit
    while left > 0 and (piece := stream.read(min(left, PIECE))):
        pieces.append(piece)
        left -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class _Unpacked(io.RawIOBase):
    """A decompressed stream whose damage is an OSError before the first byte, and the end of the stream after it."""

    def __init__(self, packed: IO[bytes], unpacking: Any, damage: list[str]) -> None:
        self._packed, self._unpacking, self._given, self._damage = packed, unpacking, 0, damage

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._unpacking.read1(len(buffer))  # a cut-off archive gives what there is before it breaks
        except Exception as error:  # zlib and zstandard raise kinds of their own
            if self._given == 0:
                raise OSError(str(error) or type(error).__name__) from error
            data = b""
            self._damage[:] = [str(error)[:200] or type(error).__name__]
        buffer[: len(data)] = data
        self._given += len(data)
        return len(data)

    def close(self) -> None:
        self._packed.close()
        super().close()


def _decompressed(stream: IO[bytes], magic: bytes, damage: list[str]) -> IO[bytes]:
    if magic.startswith(_GZIP):
        return io.BufferedReader(_Unpacked(stream, gzip.GzipFile(fileobj=stream), damage))
    if magic.startswith(_ZSTD):
        import zstandard

        unpacking = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
        return io.BufferedReader(_Unpacked(stream, unpacking, damage))
    return stream


def stdin_source() -> Source:
    """Read standard input whole."""
    data = read_up_to(sys.stdin.buffer, MAX_WHOLE + 1)
    if len(data) > MAX_WHOLE:
        raise InputError(Problem("input too large", "stdin", f"more than {MAX_WHOLE >> 20} MB"))
    return Source("stdin", data=data)


def file_source(path: Path, select: str = "") -> Source:
    """Return the source of a file after refusing what must not or cannot be read. Raises InputError."""
    source = Source(str(path), path, select=select)
    if path.suffix.lower() in _REFUSED_SUFFIXES:
        raise InputError(
            Problem("not read: binary files may run code when they are loaded", source.name, path.suffix, _READABLE,
                    "The same settings stand in args.json, config.yaml or the TensorBoard text of the run.")
        )  # fmt: skip
    check_head(source)
    return source


def check_head(source: Source) -> None:
    """Raise InputError for empty files, Git LFS pointers and binary content."""
    head = source.head()
    if not head.strip(b"\x00 \t\r\n\xef\xbb\xbf"):
        raise InputError(Problem("empty file", source.name, "no content", _READABLE))
    if head.startswith(_LFS):
        raise InputError(
            Problem("this is a Git LFS pointer, not the file itself", source.name, hint="Fetch it with: git lfs pull")
        )
    for magic, what in _BINARY:
        if head.startswith(magic):
            raise InputError(Problem("not read: binary file", source.name, what, _READABLE))
    if b"\x00" in head and not head.startswith(_RECORDS) and not is_event_file(head):
        raise InputError(Problem("not read: binary file", source.name, "NUL bytes", _READABLE))


def is_event_file(head: bytes) -> bool:
    """True when the first bytes are a TensorBoard record."""
    from rlvitals.ingest.readers.tfrecord import valid_header  # imported here: only binary input needs it

    return valid_header(head)
