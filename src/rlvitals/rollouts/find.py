"""Which files hold rollouts: a file that is named, or what a run directory holds in any trainer's layout."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rlvitals.errors import InputError, Problem
from rlvitals.rollouts.readers import READERS, generic
from rlvitals.rollouts.readers.base import Head, Reader
from rlvitals.rollouts.readers.heads import DATA, look
from rlvitals.rollouts.readers.steps import in_order, natural

MAX_FILES = 200_000  # looked at in a directory
MAX_SHAPES = 400  # names that differ in more than their numbers; one file of each is opened
MAX_LEVELS = 8
_SKIPPED = frozenset(
    {".git", "wandb", "mlruns", "swanlog", "tensorboard", "runs", "node_modules", "__pycache__", ".rlvitals", "weights"}
)
_NUMBER = re.compile(r"[0-9a-f]{8,}|\d+")


@dataclass(frozen=True, slots=True)
class Found:
    """Files of one kind of dump, in order of steps.

    Attributes:
        evaluation: files of held-out rollouts.
        left_out: other dumps that the directory holds, in words.
    """

    reader: Reader
    files: tuple[Path, ...]
    evaluation: tuple[Path, ...] = ()
    left_out: tuple[str, ...] = ()


def find(
    path: Path, mapping: Mapping[str, str] | None = None, *, most: int = MAX_FILES, without: Collection[Path] = ()
) -> Found | None:
    """Return the dump that a path holds, None when it holds none that is known.

    A mapping (canonical column -> key) makes any flat file with these keys a dump. In a directory `most` entries are
    looked at, and none in the folders `without`.
    """
    if path.is_dir():
        return _in_directory(path, mapping or {}, most, without)
    reader = reader_of(path, mapping)
    if reader is None:
        return None
    head = look(path, path.parent)
    held_out = head is not None and reader.evaluation(_placed(head, path))
    return Found(reader, (), (path,)) if held_out else Found(reader, (path,))


def _placed(head: Head, path: Path) -> Head:
    """Return a named file's head with the folders above it as its place."""
    return Head(path, "/".join(path.absolute().parts[-4:]), head.keys, head.record)


def reader_of(path: Path, mapping: Mapping[str, str] | None = None) -> Reader | None:
    """Return the reader that takes a file, None when none does."""
    if not path.is_file():
        return None
    head = look(path, path.parent)
    if head is None:
        return None
    if mapping:
        return generic.READER if head.keys.issuperset(mapping.values()) or head.keys else None
    placed = _placed(head, path)
    return next((reader for reader in READERS if reader.accepts(placed)), None)


def required(path: Path, mapping: Mapping[str, str] | None = None) -> Found:
    """Return the dump that a path holds. Raises InputError when there is none."""
    if not path.exists():
        raise InputError(Problem("no such file or directory", str(path)))
    found = find(path, mapping)
    if found is not None and (found.files or found.evaluation):
        return found
    head = look(path, path.parent) if path.is_file() else None
    broken = _unreadable(path) if head is None or not head.keys else ""
    if broken:
        raise InputError(Problem("the file can't be read", str(path), broken, "JSON lines, parquet or CSV, whole"))
    keys = ", ".join(sorted(head.keys)[:12]) if head is not None and head.keys else "none that can be told"
    raise InputError(
        Problem("no rollouts found", str(path), f"keys: {keys}" if path.is_file() else "no dump of a known layout",
                "one row per rollout with a step, a reward and a text",
                "Name the file, and say what is what with: --map reward=KEY --map step=KEY --map completion=KEY")
    )  # fmt: skip


def _unreadable(path: Path) -> str:
    """Return why nothing can be read of a file, "" where it is text at least."""
    if not path.is_file():
        return ""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(4_096)
        file.seek(max(size - 4, 0))
        end = file.read(4)
    if not size:
        return "it is empty"
    if start[:4] == b"PAR1" or path.suffix == ".parquet":
        whole = start[:4] == b"PAR1" and end == b"PAR1"
        return "" if whole else "no parquet file, or one that was cut off: its end is missing"
    packed = path.suffix in (".gz", ".zst")
    return "it is binary" if b"\0" in start and not packed else ""


def _in_directory(root: Path, mapping: Mapping[str, str], most: int, without: Collection[Path]) -> Found | None:
    shapes: dict[str, Reader | None] = {}
    held: dict[str, bool] = {}
    groups: dict[str, list[Path]] = {}
    for path in _files(root, most, without):
        shape = _NUMBER.sub("#", path.relative_to(root).as_posix())
        if shape not in shapes:
            if len(shapes) >= MAX_SHAPES:
                continue
            head = look(path, root)
            shapes[shape] = None if head is None else _reader(head, mapping)
            taker = shapes[shape]
            held[shape] = head is not None and taker is not None and taker.evaluation(_placed(head, path))
        if shapes[shape] is not None:
            groups.setdefault(shape, []).append(path)
    if not groups:
        return None
    best = max(groups, key=lambda shape: _rank(shapes[shape], held[shape], groups[shape]))
    reader = shapes[best]
    assert reader is not None
    train = [p for s, paths in groups.items() if shapes[s] is reader and not held[s] for p in paths]
    tested = [p for s, paths in groups.items() if shapes[s] is reader and held[s] for p in paths]
    files, again = _once(reader, in_order(train))
    left = [
        f"{p[0].relative_to(root).as_posix()} ({len(p)} files)" for s, p in groups.items() if shapes[s] is not reader
    ]
    if again:
        left.append(f"{again[0].relative_to(root).as_posix()} ({len(again)} files whose steps another folder has too)")
    return Found(reader, tuple(files), tuple(_once(reader, in_order(tested))[0]), tuple(left))


def _once(reader: Reader, files: list[Path]) -> tuple[list[Path], list[Path]]:
    """Return files with each step once, the last folder first, and those left out."""
    if not reader.step_in_name:
        return files, []
    last = {path.name: path for path in files}  # a later folder is a later start of the same run
    kept = frozenset(last.values())
    chosen = [path for path in files if path in kept]
    return sorted(chosen, key=lambda p: natural(Path(p.name))), [path for path in files if path not in kept]


def _reader(head: Head, mapping: Mapping[str, str]) -> Reader | None:
    if mapping and head.keys.issuperset(mapping.values()):
        return generic.READER
    return next((reader for reader in READERS if reader.accepts(head)), None)


def _rank(reader: Reader | None, held_out: bool, files: list[Path]) -> tuple[bool, bool, bool, int]:
    """Order dumps: training before held-out, readable before refused, known layouts before usual names."""
    assert reader is not None
    return (not held_out, not reader.refuse, reader is not generic.READER, len(files))


def _files(root: Path, most: int, without: Collection[Path]) -> Iterator[Path]:
    """Yield the files that may hold records, in order, level by level."""
    level = [root]
    seen = 0
    for _ in range(MAX_LEVELS):
        below: list[Path] = []
        for folder in level:
            try:
                entries = sorted(os.scandir(folder), key=lambda e: e.name)
            except OSError:
                continue
            for entry in entries:
                seen += 1
                if seen > most:
                    return
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _SKIPPED and Path(entry.path) not in without:
                        below.append(Path(entry.path))
                elif entry.is_file() and (DATA & set(Path(entry.name).suffixes) or entry.name.endswith(".pt")):
                    yield Path(entry.path)
        level = below
