"""Mapped rows of one or several files -> one series: rows kept or dropped, segments, held-out scores, events."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlvitals.ingest import hygiene
from rlvitals.ingest.mapping import Mapped
from rlvitals.ingest.segments import Split, merge_repeats, outer_join, split
from rlvitals.ingest.table import Bool, RawTable
from rlvitals.schema import (
    NONFINITE_PREFIX,
    Evals,
    Event,
    EventKind,
    Float64,
    Int64,
    Note,
    Provenance,
    Segment,
    Status,
    Unrecognised,
)

SAME_DATA_SHARE = 0.5  # share of equal values in common steps above which two files show the same rows
MIN_REVERSED = 5  # rows that only go down from which a file is read in reverse (convention)
MAX_STEP = 2**53  # whole numbers above are not exact in a float64
_ACCURACY = re.compile(r"acc|correct|solve|success|pass|exact|(?:^|_)em(?:$|_)|win", re.IGNORECASE)


@dataclass(frozen=True)
class Part:
    """One file as a series: step int64[N] strictly increasing, columns float64[N]."""

    source: str
    step: Int64
    columns: Mapping[str, Float64]
    evals: Mapping[str, Evals]
    provenance: Mapping[str, Provenance]
    unrecognised: tuple[Unrecognised, ...]
    segments: tuple[Segment, ...]
    events: tuple[Event, ...]
    notes: tuple[Note, ...]


def assemble(table: RawTable, mapped: Mapped) -> Part:
    """Turn one mapped table into a series."""
    notes = list(table.notes)
    names = hygiene.train_names(mapped.columns)
    train = hygiene.any_logged(mapped.columns, names, table.rows) & ~mapped.summary
    _drop_supervised(table, mapped, train, notes)
    step = _steps(table, mapped, train, notes)
    known = np.abs(step) < MAX_STEP  # False for NaN
    usable = known & (step >= 0)
    lost = int(np.count_nonzero(train & ~usable))
    if lost:
        notes.append(Note("rows without a usable step: left out", table.source, 0, lost))
    train &= usable
    whole = np.where(known, step, 0.0).astype(np.int64)
    joined_step, columns, main = _join_writers(table, mapped, train, whole, notes)
    columns, filled, length = hygiene.unfill(columns)
    if filled:
        notes.append(
            Note(f"values repeated for {length} rows in a row (forward-filled) in {', '.join(filled[:6])}"
                 + (f" and {len(filled) - 6} more" if len(filled) > 6 else "")
                 + ": only the first of each block is taken as a measurement", table.source, 0, len(filled))
        )  # fmt: skip
    evals = _evals(table, mapped, whole, known & ~mapped.summary, main)
    events = _events(table, mapped, main, joined_step)
    return Part(
        table.source, joined_step, columns, evals, mapped.provenance, mapped.unrecognised,
        main.segments, events, tuple(notes),
    )  # fmt: skip


def _drop_supervised(table: RawTable, mapped: Mapped, train: Bool, notes: list[Note]) -> None:
    count = hygiene.supervised_prefix(mapped.columns, table.shape, train)
    if count:
        rows = np.flatnonzero(train)[:count]
        train[rows] = False
        notes.append(
            Note(
                "supervised fine-tuning rows before the first reward: left out",
                table.source,
                int(table.lines[rows[0]]),
                count,
            )
        )


def _steps(table: RawTable, mapped: Mapped, train: Bool, notes: list[Note]) -> Float64:
    """Return a step for every row: as logged, else the last one seen, else the row's number."""
    if mapped.step is not None:
        step = mapped.step.copy()
        missing = np.isnan(step)
        if missing.any():
            seen = np.maximum.accumulate(np.where(missing, -1, np.arange(step.size)))
            step = np.where(seen >= 0, step[np.maximum(seen, 0)], np.nan)
            count = int(np.count_nonzero(missing & train))
            if count:
                notes.append(Note("rows without a step: counted to the step before them", table.source, 0, count))
        return step
    step = np.cumsum(train).astype(np.float64)
    epoch = mapped.columns.get("epoch")
    if epoch is not None:
        rows = np.flatnonzero(train & ~np.isnan(epoch))
        for restart in rows[1:][np.diff(epoch[rows]) < -1e-9]:
            step[restart:] -= step[restart] - 1.0
    step[step < 1] = 1.0
    if train.any():
        notes.append(
            Note("the log carries no step as a whole number: rows are numbered from 1 in file order", table.source)
        )
    return step


def _writers(table: RawTable, mapped: Mapped, train: Bool) -> list[Int64]:
    """Group training rows by writer: key sets that share no metric come from different processes."""
    by_raw = {p.key: m for m, p in mapped.provenance.items() if p.status is not Status.DERIVED}
    used = np.unique(table.shape[train]).tolist()
    groups: list[tuple[set[str], set[int]]] = []
    for index in used:
        metrics = {by_raw[k] for k in table.shapes[index] if k in by_raw} - hygiene.BOOKKEEPING
        touching = [g for g in groups if g[0] & metrics]
        merged = (metrics.union(*(g[0] for g in touching)), {index}.union(*(g[1] for g in touching)))
        groups = [g for g in groups if g not in touching] + [merged]
    return [np.flatnonzero(train & np.isin(table.shape, list(members))) for _, members in groups]


def _newest_first(step: Int64) -> bool:
    """True when steps only go down, as tables of trackers show them; a few such rows may be restarts."""
    return step.size >= MIN_REVERSED and bool(np.all(np.diff(step) <= 0)) and step[0] > step[-1]


def _join_writers(
    table: RawTable, mapped: Mapped, train: Bool, step: Int64, notes: list[Note]
) -> tuple[Int64, dict[str, Float64], Split]:
    """Return the joined series and the split of the writer that logs the reward."""
    empty = Split(np.zeros(0, dtype=np.int64), (), (), 0)
    best, best_score = empty, -1
    joined_step, joined = np.zeros(0, dtype=np.int64), {name: np.zeros(0) for name in mapped.columns}
    for rows in _writers(table, mapped, train):
        backwards = _newest_first(step[rows])
        if backwards:
            rows = rows[::-1]
            notes.append(Note("the rows stand newest first: read in reverse", table.source, 0, rows.size))
        found = split(step[rows], rows)
        whole = found.rows.size == table.rows and not backwards
        columns = {n: c if whole else c[found.rows] for n, c in mapped.columns.items()}
        if found.repeated:
            notes.append(
                Note("steps logged more than once in a row: the last value was taken", table.source, 0, found.repeated)
            )
        own_step, columns = merge_repeats(step[found.rows], columns)
        rewarded = any(hygiene.is_reward_like(n) and not np.isnan(c).all() for n, c in columns.items())
        score = (1_000_000_000 if rewarded else 0) + rows.size
        if score > best_score:
            best, best_score = found, score
        joined_step, joined = (
            (own_step, columns) if joined_step.size == 0 else outer_join(joined_step, joined, own_step, columns)
        )
    if joined_step.size == 0:
        return joined_step, {}, best
    said = {n: c for n, c in joined.items() if not np.isnan(c).all() or NONFINITE_PREFIX + n in joined}
    return joined_step, said, best


def _evals(table: RawTable, mapped: Mapped, step: Int64, usable: Bool, main: Split) -> dict[str, Evals]:
    """Return held-out series; points that a rewind replaced are left out."""
    alive = usable.copy()
    for row, resumed in main.rewinds:
        before = np.arange(table.rows) < row
        alive &= ~(before & (step >= resumed))
    out: dict[str, Evals] = {}
    for column in mapped.evals:
        values = column.values
        if column.guessed and mapped.step is not None:  # a summary without a step says nothing about when
            values = np.where(np.isnan(mapped.step), np.nan, values)
        starts = hygiene.forward_filled(values)
        if starts is not None:
            values = hygiene.keep_only(values, starts)
        rows = np.flatnonzero(alive & ~np.isnan(values))
        if rows.size == 0:
            continue
        order = np.argsort(step[rows], kind="stable")
        steps, scores = step[rows][order], values[rows][order]
        last = np.concatenate([np.diff(steps) > 0, [True]])
        steps, scores = steps[last], scores[last]
        name = column.name if column.name not in out else f"{column.name} ({column.key})"
        metric = column.metric
        if metric == "reward" and _ACCURACY.search(column.name) and scores.min() >= 0 and scores.max() <= 1:
            metric = "accuracy"
        out[name] = Evals(
            name, steps, scores, np.full(scores.size, np.nan), key=column.key, file=table.source, metric=metric
        )
    return out


def _events(table: RawTable, mapped: Mapped, main: Split, step: Int64) -> tuple[Event, ...]:
    last = int(step[-1]) if step.size else None
    events = [
        Event(EventKind.RESUME, resumed, f"steps from {resumed} on were logged again") for _, resumed in main.rewinds
    ]
    finished = np.flatnonzero(mapped.summary)
    after = finished.size and (main.rows.size == 0 or finished[-1] > main.rows[-1])
    if after or "last_model_checkpoint" in table.texts:  # the latter ends ms-swift's logging.jsonl
        events.append(Event(EventKind.FINISHED, last, "the trainer wrote its end-of-run summary"))
    events += [replace(e, step=last) if e.step is None else e for e in table.events]
    return tuple(events)


def combine(parts: Sequence[Part]) -> Part:
    """Join several files of one run: the same rows seen twice, a continuation, or other metrics of the same steps."""
    result = parts[0]
    for part in parts[1:]:
        result = _combine(result, part)
    return result


def _combine(a: Part, b: Part) -> Part:
    segments, events, notes = a.segments + b.segments, a.events + b.events, [*a.notes, *b.notes]
    left_step, left, evals = a.step, a.columns, dict(a.evals)
    if not _agree(a, b):
        resumed = int(b.step[0])
        cut = int(np.searchsorted(a.step, resumed))
        gone = a.step.size - cut
        if gone:
            reason = "rewind" if cut or resumed > 1 else "other run in the same file"
            segments += (Segment(int(a.step[cut]), int(a.step[-1]), gone, resumed, reason),)
            events += (Event(EventKind.RESUME, resumed, f"{b.source} goes on from step {resumed}"),)
            notes.append(Note(f"continues {a.source} from step {resumed} on and replaces {gone} of its rows", b.source))
        left_step, left = a.step[:cut], {n: c[:cut] for n, c in a.columns.items()}
        evals = {name: kept for name, series in a.evals.items() if (kept := _before(series, resumed)).step.size}
    step, columns = outer_join(left_step, left, b.step, b.columns)
    for name, series in b.evals.items():
        evals[name] = _join_evals(evals[name], series) if name in evals else series
    return Part(
        a.source, step, columns, evals, {**b.provenance, **a.provenance},
        a.unrecognised + b.unrecognised, segments, events, tuple(notes),
    )  # fmt: skip


def _agree(a: Part, b: Part) -> bool:
    """True when the files can be laid over each other: no common steps and metrics, or mostly equal values there."""
    common, at_a, at_b = np.intersect1d(a.step, b.step, return_indices=True)
    names = [n for n in hygiene.train_names(a.columns) if n in b.columns and not n.startswith(NONFINITE_PREFIX)]
    if common.size == 0 or not names:
        return True
    equal = total = 0
    for name in ["reward_mean"] if "reward_mean" in names else names:
        x, y = a.columns[name][at_a], b.columns[name][at_b]
        both = ~np.isnan(x) & ~np.isnan(y)
        if np.unique(x[both]).size < 2 and len(names) > 1 and name != "reward_mean":
            continue  # a constant agrees with any other run of the same setup
        total += int(both.sum())
        equal += int(np.count_nonzero(np.isclose(x[both], y[both], rtol=1e-3, atol=1e-6)))
    return total == 0 or equal >= SAME_DATA_SHARE * total


def _before(series: Evals, step: int) -> Evals:
    """Return the scores of earlier steps: those of rows that were replaced belong to other weights."""
    cut = int(np.searchsorted(series.step, step))
    return replace(series, step=series.step[:cut], score=series.score[:cut], stderr=series.stderr[:cut])


def _join_evals(a: Evals, b: Evals) -> Evals:
    step = np.concatenate([a.step, b.step])
    score = np.concatenate([a.score, b.score])
    stderr = np.concatenate([a.stderr, b.stderr])
    order = np.argsort(step, kind="stable")
    last = np.concatenate([np.diff(step[order]) > 0, [True]])
    keep = order[last]
    return replace(a, step=step[keep], score=score[keep], stderr=stderr[keep])
