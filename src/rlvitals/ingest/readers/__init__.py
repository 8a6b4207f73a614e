"""Readers: each turns one kind of file into raw tables, whatever trainer wrote it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rlvitals.errors import InputError, Problem
from rlvitals.ingest.sources import SQLITE, SWANLAB, WANDB, Source, file_source, is_event_file
from rlvitals.ingest.table import RawTable
from rlvitals.schema import Note

COMPRESSED = (".gz", ".zst")


def read(source: Source) -> list[RawTable]:
    """Return the tables of a file, told by its content. Raises InputError when it holds no records."""
    kind = sniff(source)
    tables = [table for table in _reader(kind)(source) if table.rows]
    if not tables:
        raise InputError(
            Problem("no metric rows found", source.name, _instead(source, kind),
                    "one record per step: JSONL, CSV, trainer_state.json, a trainer's console output or a notebook")
        )  # fmt: skip
    if source.damage:
        note = Note(f"the compressed file breaks off ({source.damage[0]}): read up to there", source.name)
        tables[0] = replace(tables[0], notes=(*tables[0].notes, note))
    return tables


def _instead(source: Source, kind: str) -> str:
    """Return what a file without rows holds, in words."""
    suffix = source.name[source.name.rfind(".") :].lower()
    if suffix in COMPRESSED and not source.compressed():
        return f"content that is not compressed as {suffix} says"
    from rlvitals.ingest.readers.csv import only_header

    if kind == "console" and only_header(source.head()):
        return "one line of column names and no rows"
    return f"{kind} content without step metrics"


def read_together(paths: Sequence[Path]) -> list[RawTable]:
    """Read files of one run that belong together: a tracker's file per start, or one file. Raises InputError."""
    if paths[0].is_dir():
        from rlvitals.ingest.readers.mlflow import read_run

        return [read_run(path) for path in paths]
    if len(paths) == 1:
        return read(file_source(paths[0]))
    sources: list[Source] = []
    for path in paths:
        try:
            sources.append(file_source(path))
        except InputError:  # an empty file of a start that never logged
            continue
    if not sources:
        raise InputError(Problem("no readable file", str(paths[0].parent)))
    kinds = {sniff(source) for source in sources}
    if kinds == {"tensorboard"}:
        from rlvitals.ingest.readers.tensorboard import read_files
    elif kinds == {"wandb"}:
        from rlvitals.ingest.readers.wandb_offline import read_files
    else:
        return [table for source in sources for table in read(source)]
    return [table for table in read_files(sources) if table.rows]


def _reader(kind: str) -> Callable[[Source], list[RawTable]]:
    """Import the reader of one kind only: duckdb and the others stay out of start-up."""
    if kind == "tensorboard":
        from rlvitals.ingest.readers.tensorboard import read as reader
    elif kind == "wandb":
        from rlvitals.ingest.readers.wandb_offline import read as reader
    elif kind == "swanlab":
        from rlvitals.ingest.readers.swanlab import read as reader
    elif kind == "sqlite":
        from rlvitals.ingest.readers.sqlite import read as reader
    elif kind == "parquet":
        from rlvitals.ingest.readers.parquet import read as reader
    elif kind == "notebook":
        from rlvitals.ingest.readers.notebook import read as reader
    elif kind == "json":
        from rlvitals.ingest.readers.json_array import read as reader
    elif kind == "jsonl":
        from rlvitals.ingest.readers.jsonl import read as reader
    elif kind == "csv":
        from rlvitals.ingest.readers.csv import read as reader
    else:
        from rlvitals.ingest.readers.console import read as reader
    return reader


def sniff(source: Source) -> str:
    """Return the kind of a file by its first bytes: a name that _reader knows, or "console"."""
    head = source.head().removeprefix(b"\xef\xbb\xbf")
    for magic, kind in ((b"PAR1", "parquet"), (WANDB, "wandb"), (SWANLAB, "swanlab"), (SQLITE, "sqlite")):
        if head.startswith(magic):
            return kind
    if b"\x00" in head and is_event_file(head):
        return "tensorboard"
    start = head.lstrip()
    if start.startswith(b"[") and start[1:].lstrip()[:1] in (b"{", b"]", b"["):
        return "json"
    if start.startswith(b"{"):
        return _object_kind(source, start)
    from rlvitals.ingest.readers.csv import looks_like_table

    return "csv" if looks_like_table(head) else "console"


def _object_kind(source: Source, start: bytes) -> str:
    """Tell one big object from one object per line; a python dict line is console text."""
    first, newline, _ = start.partition(b"\n")
    name = Path(source.name).name.lower()  # a folder may be called anything
    if b'"cells"' in start[:2000] or ".ipynb" in name:
        return "notebook"
    if start[1:].lstrip().startswith(b"'"):
        return "console"
    if first.strip() == b"{" or first.rstrip().endswith((b",", b"[")):
        return "json"
    if not newline and ".jsonl" not in name and ".ndjson" not in name:
        return "json" if ".json" in name or len(start) >= 4096 else "jsonl"
    return "jsonl"
