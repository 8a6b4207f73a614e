"""Rollouts of one live step as a batch of the canonical table, and their file beside the metrics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from rlvitals.ingest.values import number
from rlvitals.live.keys import text
from rlvitals.metrics import ROLLOUTS, lookup
from rlvitals.rollouts.table import BY_NAME, MISSING, PART, Batch, Column, Kind, absent, kind_of

MAX_ROLLOUTS = 100_000  # of one step (convention)
MAX_PARTS = 64  # reward components (convention)
MAX_TEXT = 200_000  # characters of one text; longer ones are cut (convention)
MAX_NAME = 200  # characters of a reward component's name


def batch_of(step: int, rows: Sequence[Mapping[str, Any]] | Batch) -> Batch:
    """Return rollouts as a batch: columns of the canonical table, others left out; `step` is the one given.

    Reward components are `reward_part/<name>`, or a mapping under "reward_parts". Raises TypeError for what is neither
    a batch nor a sequence of mappings.
    """
    if isinstance(rows, Batch):
        return rows
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Sequence):
        raise TypeError(f"rollouts are a {type(rows).__name__}; expected a sequence of mappings, or a Batch")
    flat = [_flat(row) for row in rows[:MAX_ROLLOUTS]]
    names = [n for n in dict.fromkeys(name for row in flat for name in row) if n in BY_NAME or n.startswith(PART)]
    columns = {name: _column(name, [row.get(name) for row in flat]) for name in names}
    columns["step"] = np.full(len(flat), step, dtype=np.int64)
    return Batch(len(flat), columns)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    out = {str(k): v for k, v in row.items() if k != "reward_parts"}
    parts = row.get("reward_parts")
    if isinstance(parts, Mapping):
        out |= {f"{PART}{text(name)[:MAX_NAME]}": value for name, value in list(parts.items())[:MAX_PARTS]}
    return out


def _column(name: str, values: Sequence[object]) -> Column:
    kind = kind_of(name)
    out = absent(kind, len(values))
    for i, value in enumerate(values):
        if value is None:
            continue
        if kind is Kind.TEXT:
            out[i] = text(value)[:MAX_TEXT]
        elif kind is Kind.TOKENS:
            out[i] = np.asarray(value, dtype=np.float64).ravel()
        else:
            found = number(value)
            if found is not None and (kind is Kind.NUMBER or math.isfinite(found)):
                out[i] = found
    return out


def filled(found: Mapping[str, float], logged: Set[str]) -> dict[str, float]:
    """Return what rollouts say under the names of the step log, for metrics that the trainer itself does not log.

    One task family alone says nothing of its own.
    """
    heads = {name.partition("/")[0] for name in logged if "/" in name}
    out = {}
    for name, value in found.items():
        canonical = name.removeprefix(f"{ROLLOUTS}/")
        head, slash, _ = canonical.partition("/")
        known = canonical in logged or bool(slash and head in heads)
        if canonical != name and not known and lookup(canonical) is not None:
            out[canonical] = value
    alone = [name for name in out if name.startswith("reward_family/")]
    return {name: value for name, value in out.items() if len(alone) != 1 or name != alone[0]}


def lines_of(batch: Batch, texts: int) -> Iterator[dict[str, Any]]:
    """Yield the rollouts as JSON rows: numbers of all, texts of `texts` of them spread over the batch."""
    every = max(1, math.ceil(batch.rows / texts)) if texts > 0 else batch.rows + 1
    for i in range(batch.rows):
        row: dict[str, Any] = {}
        for name, column in batch.columns.items():
            value = column[i]
            kind = kind_of(name)
            heavy = name in ("prompt", "completion", "raw_output") or kind is Kind.TOKENS
            if value is None or (heavy and i % every) or (kind is Kind.INTEGER and value == MISSING):
                continue
            if kind is Kind.NUMBER:
                if not math.isnan(value):
                    row[name] = float(value)
            else:
                row[name] = value.tolist() if kind is Kind.TOKENS else int(value) if kind is Kind.INTEGER else value
        yield row
