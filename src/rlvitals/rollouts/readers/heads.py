"""The first look at a file: its columns or keys, without reading it."""

from __future__ import annotations

import csv
from pathlib import Path

import orjson

from rlvitals.rollouts.readers import sql
from rlvitals.rollouts.readers.base import Head, Request
from rlvitals.rollouts.readers.records import MAX_LINE, objects, opened

LOOKED_AT = 64  # records at each place of a file whose keys are looked at
PLACES = 8  # places of a file at which keys are looked for
DATA = frozenset({".jsonl", ".ndjson", ".json", ".parquet", ".csv", ".tsv"})


def look(path: Path, root: Path) -> Head | None:
    """Return the head of a file, None for one that holds no records."""
    place = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
    if path.suffix == ".pt":
        return Head(path, place, frozenset())
    suffixes = [s for s in path.suffixes if s not in (".gz", ".zst")]
    suffix = suffixes[-1] if suffixes else ""
    try:
        if suffix == ".parquet":
            return Head(path, place, _columns(path))
        if suffix in (".csv", ".tsv"):
            with opened(path) as stream:
                first = stream.readline(MAX_LINE).decode("utf-8-sig", "replace")
            return Head(path, place, frozenset(next(csv.reader([first], delimiter="\t" if suffix == ".tsv" else ","))))
        if suffix == ".json" and path.name.startswith("episode"):  # the only dump of one object per file
            found = next((record for _, record in objects(path, Request())), {})
            return Head(path, place, frozenset(map(str, found)), found)
        if suffix in (".jsonl", ".ndjson"):
            with opened(path) as stream:
                for _ in range(LOOKED_AT):
                    line = stream.readline(MAX_LINE)
                    if not line:
                        break
                    try:
                        record = orjson.loads(line)
                    except orjson.JSONDecodeError:
                        continue
                    if isinstance(record, dict):
                        return Head(path, place, frozenset(record), record)
    except Exception:  # whatever a broken file does: it is no dump that we know
        return None
    return None


def _columns(path: Path) -> frozenset[str]:
    connection = sql.connect()
    try:
        rows = connection.execute(f"DESCRIBE SELECT * FROM {sql.source_of((path,), ())}").fetchall()
        return frozenset(str(row[0]) for row in rows if row[0] != sql.FILENAME)
    finally:
        connection.close()


def numeric_keys(path: Path) -> dict[str, bool]:
    """Return key -> whether its values were numbers or booleans, of records at several places of a JSON-lines file."""
    out: dict[str, bool] = {}
    size = path.stat().st_size
    packed = path.suffix in (".gz", ".zst")
    with opened(path) as stream:
        for place in range(1 if packed or size < 2**20 else PLACES):
            if place:
                stream.seek(size * place // PLACES)
                stream.readline(MAX_LINE)
            for _ in range(LOOKED_AT):
                line = stream.readline(MAX_LINE)
                if not line:
                    break
                try:
                    record = orjson.loads(line)
                except orjson.JSONDecodeError:
                    continue
                if isinstance(record, dict):
                    for key, value in record.items():
                        if value is not None:
                            out[key] = out.get(key, True) and isinstance(value, bool | int | float)
    return out
