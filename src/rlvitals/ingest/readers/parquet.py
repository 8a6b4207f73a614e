"""Parquet tables of step metrics, read through duckdb."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from rlvitals.errors import InputError, Problem
from rlvitals.ingest.sources import Source
from rlvitals.ingest.table import RawTable, TableBuilder

MAX_ROWS = 5_000_000  # rows; a step table is far smaller, a rollout table may not be


def read(source: Source) -> list[RawTable]:
    """Read a parquet file. Raises InputError when duckdb cannot."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="rlvitals-") as folder:
        path = source.path
        if path is None or path.suffix != ".parquet":  # from stdin or packed
            path = Path(folder) / "table.parquet"
            path.write_bytes(source.read())
        try:
            with duckdb.connect() as connection:
                table: dict[str, Any] = connection.execute(
                    "SELECT * FROM read_parquet(?) LIMIT ?", [str(path), MAX_ROWS]
                ).fetchnumpy()
        except duckdb.Error as error:
            raise InputError(Problem("cannot read the parquet file", source.name, str(error)[:200])) from error
    return [_table(table, source.name)]


def _table(columns: dict[str, Any], name: str) -> RawTable:
    lists = {key: _cells(values) for key, values in columns.items()}
    n = max((len(cells) for cells in lists.values()), default=0)
    builder = TableBuilder(name)
    for i in range(n):
        builder.add({key: cells[i] for key, cells in lists.items() if cells[i] is not None}, i + 1)
    return builder.build()


def _cells(values: Any) -> list[object]:
    """Return plain python values, None for a null."""
    masked = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    cells: list[object] = np.ma.getdata(values).tolist()
    if masked is not None and masked.any():
        return [None if gone else cell for cell, gone in zip(cells, masked.tolist(), strict=True)]
    return cells
