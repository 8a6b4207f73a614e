"""Are the files of a checkpoint whole? Sizes, indexes and headers are read; no tensor is loaded, no pickle opened."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path

MAX_HEADER_BYTES = 100_000_000  # of a safetensors header (limit of the format's own reference implementation)
MAX_INDEX_BYTES = 50_000_000
MAX_FILES = 5_000  # of one checkpoint that are looked at (convention)


def problems(path: Path) -> tuple[str, ...]:
    """Return what is wrong with a checkpoint file or folder, empty when everything that can be looked at is whole.

    safetensors: the header parses and its offsets end where the file ends. torch files (zip): the directory at the end
    is there. Indexes: every shard is there and the sizes add up.
    """
    if path.is_file():
        return _file(path)
    try:
        files = sorted(f for f in path.rglob("*") if f.is_file())[:MAX_FILES]
    except OSError as error:
        return (f"{path.name}: {error.strerror}",)
    if not files:
        return (f"{path.name}: no files",)
    found = [f"{p}" for f in files for p in _file(f)]
    found += [p for f in files if f.name.endswith(".index.json") for p in _index(f)]
    return tuple(found)


def _file(file: Path) -> tuple[str, ...]:
    try:
        size = file.stat().st_size
        if size == 0:
            return (f"{file.name}: empty",) if file.suffix in (".safetensors", ".pt", ".pth", ".bin") else ()
        if file.suffix == ".safetensors":
            return _safetensors(file, size)
        if file.suffix in (".pt", ".pth", ".bin"):
            return _torch(file)
    except OSError as error:
        return (f"{file.name}: {error.strerror}",)
    return ()


def _safetensors(file: Path, size: int) -> tuple[str, ...]:
    with file.open("rb") as stream:
        head = stream.read(8)
        if len(head) < 8:
            return (f"{file.name}: {size} bytes, too short for a header",)
        length = struct.unpack("<Q", head)[0]
        if not 2 <= length <= min(MAX_HEADER_BYTES, size - 8):
            return (f"{file.name}: header of {length} bytes in a file of {size}: cut off",)
        try:
            header = json.loads(stream.read(length))
        except (ValueError, RecursionError):
            return (f"{file.name}: the header is no JSON",)
    ends = [t["data_offsets"][1] for t in header.values() if isinstance(t, dict) and "data_offsets" in t]
    end = 8 + length + max((int(e) for e in ends), default=0)
    return () if end == size else (f"{file.name}: {size} bytes, its header asks for {end}: cut off",)


def _torch(file: Path) -> tuple[str, ...]:
    with file.open("rb") as stream:
        magic = stream.read(4)
    if magic[:2] == b"PK" and not zipfile.is_zipfile(file):
        return (f"{file.name}: the zip directory at its end is missing: cut off",)
    return ()


def _index(file: Path) -> tuple[str, ...]:
    try:
        if file.stat().st_size > MAX_INDEX_BYTES:
            return (f"{file.name}: too large to read",)
        index = json.loads(file.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError) as error:
        return (f"{file.name}: {error}",)
    shards = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(shards, dict):
        return (f"{file.name}: no weight_map",)
    names = sorted({str(s) for s in shards.values()})
    safe = [n for n in names if "/" not in n and "\\" not in n]
    missing = [n for n in names if n not in safe or not (file.parent / n).is_file()]
    if missing:
        return (f"{file.name}: {len(missing)} of {len(names)} shards missing, first {missing[0][:120]}",)
    total = index.get("metadata", {}).get("total_size") if isinstance(index.get("metadata"), dict) else None
    held = sum((file.parent / n).stat().st_size for n in names)
    if isinstance(total, int) and held < total:
        return (f"{file.name}: shards hold {held} bytes, total_size says {total}",)
    return ()
