"""What looks like data and is none: supervised rows before RL rows, forward-filled values, placeholder zeros."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rlvitals.ingest.table import Bool
from rlvitals.metrics import lookup
from rlvitals.schema import NONFINITE_PREFIX, Float64, Int64, Provenance, RunConfig, Status

# Columns that say nothing about what a row measures: never a reason to keep a row, to link rows or to find repeats.
BOOKKEEPING = frozenset(
    {"epoch", "tokens_total", "step_time_s", "tokens_per_second", "learning_rate", "kl_coef"}
)  # fmt: skip
REWARD_LIKE = ("reward_mean", "reward_part/", "reward_family/", "success_frac", "success_tier/")

MIN_PLACEHOLDER_ROWS = 3  # rows; a KL of exactly 0 before the first update is a measurement
MIN_BLOCKS = 5  # blocks of repeated values before they count as forward-filled
BLOCK_AGREEMENT = 0.8  # share of blocks that must have the commonest length
MAX_BLOCK_RATIO = 2  # longest block over the commonest one; a longer one is a constant stretch of a real series
MIN_DISTINCT = 0.9  # share of blocks with a value of their own: continuous measurements, not a few discrete levels


def is_reward_like(metric: str) -> bool:
    return metric.startswith(REWARD_LIKE)


def train_names(columns: Mapping[str, Float64]) -> list[str]:
    """Return the columns that make a row a training row."""
    return [n for n in columns if n not in BOOKKEEPING and n.removeprefix(NONFINITE_PREFIX) not in BOOKKEEPING]


def any_logged(columns: Mapping[str, Float64], names: list[str], rows: int) -> Bool:
    """Return bool[N]: rows in which at least one of the columns was logged."""
    out = np.zeros(rows, dtype=np.bool_)
    for name in names:
        if out.all():
            break
        out |= ~np.isnan(columns[name])
    return out


def supervised_prefix(columns: Mapping[str, Float64], shape: Int64, train: Bool) -> int:
    """Return how many leading training rows are supervised fine-tuning before RL began.

    They carry no reward and, to tell them from a sparsely logged reward, no later row carries their set of keys.
    """
    rewarded = any_logged(columns, [n for n in columns if is_reward_like(n)], train.size) & train
    rows = np.flatnonzero(train)
    if rows.size == 0 or not rewarded.any():
        return 0
    first = int(np.flatnonzero(rewarded)[0])
    leading = rows[rows < first]
    if leading.size == 0 or "loss" not in columns or not np.isfinite(columns["loss"][leading]).any():
        return 0
    later = set(shape[rows[rows >= first]].tolist())
    return 0 if later & set(shape[leading].tolist()) else int(leading.size)


def forward_filled(values: Float64) -> Int64 | None:
    """Return the rows at which a block of repeated values starts, None when the column is not forward-filled."""
    rows = np.flatnonzero(~np.isnan(values))
    logged = values[rows]
    if logged.size < 2 * MIN_BLOCKS:
        return None
    starts = np.concatenate([[0], np.flatnonzero(np.diff(logged) != 0) + 1])
    period = _period(starts, logged.size)
    if period < 2 or np.unique(logged[starts]).size < MIN_DISTINCT * starts.size:
        return None
    return np.asarray(rows[starts])


def _period(starts: Int64, size: int) -> int:
    """Return the length that nearly all blocks have, 0 when there is none."""
    if starts.size < MIN_BLOCKS:
        return 0
    lengths = np.diff(np.concatenate([starts, [size]]))
    inner = lengths[1:-1] if lengths.size > 3 else lengths
    period = int(np.bincount(inner).argmax())
    even = lengths.max() <= MAX_BLOCK_RATIO * period and np.mean(inner == period) >= BLOCK_AGREEMENT
    return period if even else 0


def keep_only(values: Float64, rows: Int64) -> Float64:
    """Return the column with NaN everywhere but in the given rows."""
    out = np.full(values.size, np.nan)
    out[rows] = values[rows]
    return out


def unfill(columns: Mapping[str, Float64]) -> tuple[dict[str, Float64], list[str], int]:
    """Return the columns with only the first of each forward-filled block kept, which ones, and the block length.

    Two measurements in a row may be equal by chance: columns of one block length share their block starts.
    """
    out = dict(columns)
    found: dict[int, dict[str, Int64]] = {}
    for name, values in columns.items():
        if name in BOOKKEEPING or name.startswith(NONFINITE_PREFIX):
            continue
        starts = forward_filled(values)
        if starts is not None:
            found.setdefault(int(np.median(np.diff(starts))), {})[name] = starts
    for members in found.values():
        shared = np.unique(np.concatenate(list(members.values())))
        same_grid = _period(shared, next(iter(columns.values())).size) > 1
        for name, starts in members.items():
            out[name] = keep_only(columns[name], shared if same_grid else starts)
    names = [name for members in found.values() for name in members]
    return out, names, max(found, default=0)


def mark_placeholders(
    columns: Mapping[str, Float64], provenance: Mapping[str, Provenance], config: RunConfig
) -> dict[str, Provenance]:
    """Mark constant exact zeros of metrics that trainers write when they do not measure them."""
    out = dict(provenance)
    for name, found in provenance.items():
        row = lookup(name)
        if row is None or not row.zero_may_mean_unmeasured or found.status is Status.PLACEHOLDER:
            continue
        if name not in columns or _says_used(name, config):
            continue
        finite = columns[name][np.isfinite(columns[name])]
        if finite.size >= MIN_PLACEHOLDER_ROWS and not finite.any():
            note = f"exactly 0 in all {finite.size} rows: taken as not measured"
            out[name] = replace(found, status=Status.PLACEHOLDER, note="; ".join(t for t in (found.note, note) if t))
    return out


def _says_used(name: str, config: RunConfig) -> bool:
    """True when the config says that the metric is really computed, so that a zero is a finding."""
    if name in {"clip_frac", "clip_low_frac", "clip_high_frac"}:
        return config.updates_per_rollout is not None and config.updates_per_rollout > 1
    if name in {"kl_ref", "kl_loss"}:
        return config.kl_coef is not None and config.kl_coef > 0
    return False
