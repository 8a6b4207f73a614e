"""W&B's CSV exports of a chart: columns "run - metric" with __MIN and __MAX beside them, of one run or of several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rlvitals.ingest.table import RawTable
from rlvitals.schema import Note

SEPARATOR = " - "  # between run name and metric
BOUNDS = ("__MIN", "__MAX")  # smallest and largest value of a sampled point: no metrics of their own
MAX_SHOWN = 6  # other runs that are named


def is_export(keys: Mapping[str, object]) -> bool:
    """True when a column stands beside its own __MIN and __MAX."""
    return any(SEPARATOR in key and all(key + bound in keys for bound in BOUNDS) for key in keys)


def unwrap(table: RawTable) -> RawTable:
    """Return the table of one run under the metrics' own names; of several runs the one with most values."""
    if not is_export(table.columns):
        return table
    plain = [key for key in table.columns if not key.endswith(BOUNDS)]
    runs: dict[str, dict[str, str]] = {}  # run -> column -> metric
    for key in plain:
        run, separator, metric = key.rpartition(SEPARATOR)
        if separator and metric:
            runs.setdefault(run, {})[key] = metric
    values = {run: sum(int(np.count_nonzero(~np.isnan(table.columns[k]))) for k in keys) for run, keys in runs.items()}
    best = max(runs, key=lambda run: values[run])
    names = {key: key for key in plain if SEPARATOR not in key} | runs[best]
    notes = table.notes
    others = [run for run in runs if run != best]
    if others:
        shown = ", ".join(others[:MAX_SHOWN]) + (
            f" and {len(others) - MAX_SHOWN} more" if len(others) > MAX_SHOWN else ""
        )
        notes = (*notes, Note(f"the export holds {len(runs)} runs; read {best}, left out {shown}", table.source))
    return replace(
        table,
        columns={names[k]: c for k, c in table.columns.items() if k in names},
        nonfinite={names[k]: c for k, c in table.nonfinite.items() if k in names},
        shapes=tuple(tuple(names[k] for k in shape if k in names) for shape in table.shapes),
        texts={names[k]: t for k, t in table.texts.items() if k in names},
        notes=notes,
    )
