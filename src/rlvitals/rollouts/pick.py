"""Single rollouts to look at: those that a filter finds, whole, with all that the dump says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlvitals.rollouts.dump import Rollouts
from rlvitals.rollouts.grouping import Grouper
from rlvitals.rollouts.skips import Skips
from rlvitals.rollouts.table import BY_NAME, FILE, MISSING, PART, ROW, Batch, Kind, kind_of
from rlvitals.rollouts.where import Filter

Value = int | float | str


@dataclass(frozen=True)
class Picked:
    """One rollout; `values` holds what the dump says, in the order of the table, absent columns left out."""

    values: dict[str, Value]

    def text(self, name: str) -> str:
        return str(self.values.get(name, ""))

    def number(self, name: str) -> float:
        """Return a number, NaN where it is absent or text."""
        found = self.values.get(name, "")
        return float("nan") if isinstance(found, str) else float(found)


@dataclass(frozen=True)
class Selection:
    """What a filter found: the rollouts up to the limit, and how many there are in all."""

    rollouts: tuple[Picked, ...]
    matching: int
    seen: int
    grouper: Grouper
    skips: Skips


def pick(rollouts: Rollouts, where: Filter | None, limit: int) -> Selection:
    """Return the first rollouts for which a filter is true. Raises InputError when nothing can be read.

    Text is read of the rollouts that are shown alone, unless the filter asks for text.
    """
    names = tuple(dict.fromkeys((*(where.columns if where is not None else ()), "reward")))
    grouper, skips = Grouper(rollouts.group_size), Skips()
    matching = seen = 0
    labels: dict[tuple[str, int], tuple[str | None, int]] = {}
    for batch in rollouts.scan(names, grouper=grouper, evaluation=True, skips=skips):
        seen += batch.rows
        at = np.flatnonzero(where(batch)) if where is not None else np.arange(batch.rows)
        matching += int(at.size)
        for i in at[: max(limit - len(labels), 0)].tolist():
            labels[batch.file(i), batch.row(i)] = (batch.text("group")[i], int(batch.integer("index")[i]))
    rows: dict[Path, list[int]] = {}
    for file, row in labels:
        rows.setdefault(Path(file), []).append(row)
    found: dict[tuple[str, int], Picked] = {}
    if rows:
        chosen = {path: sorted(at) for path, at in rows.items()}
        for batch in rollouts.scan(None, rows=chosen, evaluation=True):
            for i in range(batch.rows):
                key = (batch.file(i), batch.row(i))
                if key in labels:
                    found[key] = _picked(batch, i, *labels[key])
    return Selection(tuple(found[k] for k in labels if k in found), matching, seen, grouper, skips)


def _picked(batch: Batch, at: int, group: str | None, index: int) -> Picked:
    values: dict[str, Value] = {}
    for name in [*BY_NAME, *(n for n in batch.columns if n.startswith(PART))]:
        if name not in batch.columns or kind_of(name) is Kind.TOKENS:
            continue
        value = batch.columns[name][at]
        if kind_of(name) is Kind.TEXT:
            if value is not None:
                values[name] = str(value)
        elif kind_of(name) is Kind.INTEGER:
            if value != MISSING:
                values[name] = int(value)
        elif np.isfinite(value):
            values[name] = float(value)
    if group is not None:
        values["group"] = group
    if index != MISSING:
        values["index"] = index
    return Picked({**values, FILE: batch.file(at), ROW: batch.row(at)})


def in_groups(found: Sequence[Picked]) -> list[tuple[tuple[str, str], list[Picked]]]:
    """Return ((step, group), its rollouts) in the order in which they were found."""
    out: dict[tuple[str, str], list[Picked]] = {}
    for one in found:
        out.setdefault((one.text("step"), one.text("group")), []).append(one)
    return list(out.items())
