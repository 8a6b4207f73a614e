"""Bands from the user's own healthy runs, as columns beside a run's own: what `check --baseline` compares with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rlvitals.errors import InputError, Problem
from rlvitals.metrics import BASELINE_HIGH, BASELINE_LOW, lookup
from rlvitals.schema import Float64, Note, Provenance, Run, Status
from rlvitals.tails import student_quantile

VITALS = (
    "reward_mean",
    "success_frac",
    "advantage_std",
    "zero_variance_frac",
    "entropy",
    "kl_ref",
    "clip_frac",
    "grad_norm",
    "length_mean",
    "truncated_frac",
)
LEAST_RUNS = 2
SPREAD_Z = 2.58  # two-sided 0.01 between runs, as Student's t for their number
SMOOTH = 20  # rows whose median stands for the level at a step


def with_baseline(run: Run, others: Sequence[Run]) -> Run:
    """Return the run with a band per vital metric. Raises InputError for fewer than two runs, or none that fits."""
    if len(others) < LEAST_RUNS:
        found = f"{len(others)} run{'s' * (len(others) != 1)}"
        raise InputError(Problem("too few runs for a baseline", "--baseline", found, f"{LEAST_RUNS} healthy runs"))
    columns, provenance = dict(run.columns), dict(run.provenance)
    names = ", ".join(o.name for o in others)[:200]
    for metric in VITALS:
        if not run.has(metric):
            continue
        band = _band(run, metric, others)
        if band is None:
            continue
        for prefix, values in ((BASELINE_LOW, band[0]), (BASELINE_HIGH, band[1])):
            columns[prefix + metric] = values
            provenance[prefix + metric] = Provenance(prefix + metric, metric, names, Status.USER)
    if not any(n.startswith(BASELINE_LOW) for n in columns):
        shared = ", ".join(m for m in VITALS if run.has(m)) or "no vital metric"
        raise InputError(Problem("no band", "--baseline", f"this run logs {shared}", "a metric that 2 of them log"))
    columns["baseline_runs"] = np.full(run.rows, float(len(others)))
    note = Note(f"bands from {len(others)} runs: {names}", "--baseline", 0, len(others))
    return replace(run, columns=columns, provenance=provenance, notes=(*run.notes, note))


def _band(run: Run, metric: str, others: Sequence[Run]) -> tuple[Float64, Float64] | None:
    """Return (low, high) float64[rows] at the run's steps; NaN after the last step that two of the runs reached."""
    levels = [_level(o, metric, run) for o in others if o.has(metric)]
    if len(levels) < LEAST_RUNS:
        return None
    stacked = np.stack(levels)
    count = np.isfinite(stacked).sum(axis=0)
    known = count >= LEAST_RUNS
    filled = np.where(np.isfinite(stacked), stacked, 0.0)
    mean = filled.sum(axis=0) / np.maximum(count, 1)
    square = np.where(np.isfinite(stacked), (stacked - mean) ** 2, 0.0).sum(axis=0)
    spread = np.sqrt(square / np.maximum(count - 1, 1))
    t = np.array([student_quantile(SPREAD_Z, float(max(c - 1, 1))) for c in count])
    half = t * spread * np.sqrt(1 + 1 / np.maximum(count, 1))
    low = np.where(known, np.minimum(mean - half, np.where(known, np.nanmin(_safe(stacked), axis=0), 0)), math.nan)
    high = np.where(known, np.maximum(mean + half, np.where(known, np.nanmax(_safe(stacked), axis=0), 0)), math.nan)
    known_metric = lookup(metric)
    if known_metric is not None:
        low, high = np.maximum(low, known_metric.low), np.minimum(high, known_metric.high)
    return low, high


def _safe(stacked: Float64) -> Float64:
    """Return the levels with all-NaN columns set to 0: they are masked out afterwards."""
    return np.where(np.isfinite(stacked).any(axis=0), stacked, 0.0)


def _level(other: Run, metric: str, run: Run) -> Float64:
    """Return another run's level at each step of this one: a running median, held between its rows."""
    values = other.values(metric)
    keep = np.isfinite(values)
    steps, values = other.step[keep], values[keep]
    smooth = np.array([np.median(values[max(0, i - SMOOTH + 1) : i + 1]) for i in range(values.size)])
    at = np.searchsorted(steps, run.step, side="right") - 1
    level = smooth[np.maximum(at, 0)]
    spacing = float(np.median(np.diff(steps))) if steps.size > 1 else 1.0
    inside = (at >= 0) & (run.step <= steps[-1] + spacing)
    return np.where(inside, level, math.nan)
