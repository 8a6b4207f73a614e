"""slime's two step axes made one: `rollout/step` counts rollouts, `train/step` counts updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rlvitals.ingest.table import Bool, RawTable
from rlvitals.schema import Float64, Int64, Note

_STEP = "step"
_UPDATE = "train/"  # what the trainer writes once per update
_AXES = ("train/step", "rollout/step", "eval/step")


def on_rollout_steps(table: RawTable) -> RawTable:
    """Return the table with update rows on the step of their rollout; unchanged with one update per rollout.

    Every update row comes after the rollout rows, so of several updates of a rollout the last one's values stay.
    """
    step = table.columns.get(_STEP)
    if step is None:
        return table
    update = _logged(table, lambda key: key.startswith(_UPDATE) and key not in _AXES) & ~np.isnan(step)
    other = _logged(table, lambda key: not key.startswith(_UPDATE) and key not in (_STEP, *_AXES)) & ~np.isnan(step)
    if not update.any() or not other.any():
        return table
    updates, rollouts = float(step[update].max()) + 1, float(step[other].max()) + 1
    each = round(updates / rollouts)
    if each < 2 or abs(updates - each * rollouts) > each:
        return table
    first, second = np.flatnonzero(other), np.flatnonzero(update)
    rows = np.concatenate([first, second])
    from_update = np.concatenate([np.zeros(first.size, np.bool_), np.ones(second.size, np.bool_)])
    columns = {key: _placed(key, column, rows, from_update) for key, column in table.columns.items() if key != _STEP}
    columns[_STEP] = np.where(from_update, np.floor(step[rows] / each), step[rows])
    text = f"{each} updates per rollout: train/* are the values of each rollout's last update"
    return replace(
        table,
        rows=rows.size,
        columns=columns,
        nonfinite={key: bad[rows] & (from_update == key.startswith(_UPDATE)) for key, bad in table.nonfinite.items()},
        lines=table.lines[rows],
        shape=from_update.astype(np.int64),
        shapes=_shapes(columns),
        notes=(*table.notes, Note(text, table.source)),
        facts=_with_count(table, each),
    )


def _logged(table: RawTable, wanted: Callable[[str], bool]) -> Bool:
    out = np.zeros(table.rows, dtype=np.bool_)
    for key, column in table.columns.items():
        if wanted(key):
            out |= ~np.isnan(column)
    return out


def _placed(key: str, column: Float64, rows: Int64, from_update: Bool) -> Float64:
    return np.where(from_update == key.startswith(_UPDATE), column[rows], np.nan)


def _shapes(columns: dict[str, Float64]) -> tuple[tuple[str, ...], ...]:
    sides = (False, True)
    return tuple((_STEP, *(k for k in columns if k != _STEP and k.startswith(_UPDATE) == side)) for side in sides)


def _with_count(table: RawTable, each: int) -> dict[str, object]:
    configs = table.facts.get("configs")
    known = dict(configs) if isinstance(configs, dict) else {}
    return {**table.facts, "configs": {"train/step over rollout/step": {"num_steps_per_rollout": each}, **known}}
