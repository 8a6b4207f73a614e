"""Rows -> a mapped table, for tests of adapters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlvitals.ingest.adapter import Adapter
from rlvitals.ingest.mapping import Mapped, map_table
from rlvitals.ingest.rules import Resolver
from rlvitals.ingest.table import TableBuilder
from rlvitals.schema import Provenance, RunConfig


def mapped(
    adapter: Adapter, rows: Sequence[Mapping[str, object]], config: RunConfig | None = None, source: str = "run.jsonl"
) -> Mapped:
    """Return rows in canonical names, as the loader maps them."""
    builder = TableBuilder(source)
    for line, row in enumerate(rows, start=1):
        builder.add(row, line)
    table = builder.build()
    return map_table(table, Resolver(adapter, table.keys(), config))


def finished(adapter: Adapter, result: Mapped, config: RunConfig) -> Mapping[str, Provenance]:
    assert adapter.finish is not None
    return adapter.finish(result.provenance, config)


def first(result: Mapped) -> dict[str, float]:
    """Return the first row's canonical values, rounded against float noise."""
    return {name: round(float(column[0]), 9) for name, column in result.columns.items()}
