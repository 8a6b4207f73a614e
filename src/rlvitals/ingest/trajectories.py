"""Rollouts joined to a run: the dump beside a log, what is recomputed from it, and a dump read without any log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from rlvitals.errors import InputError
from rlvitals.ingest.directory import Places, places_in
from rlvitals.ingest.discover import has_log, is_checkpoint
from rlvitals.ingest.table import RawTable, TableBuilder
from rlvitals.metrics import ROLLOUTS, lookup
from rlvitals.rollouts.counting import count
from rlvitals.rollouts.dump import Rollouts, of_found, open_rollouts
from rlvitals.rollouts.fact import Series
from rlvitals.rollouts.find import Found, find, reader_of
from rlvitals.rollouts.fold import Folded
from rlvitals.rollouts.table import PART
from rlvitals.schema import Float64, Note, Provenance, Run, Status

Count = Callable[[Rollouts], tuple[Folded, Rollouts]]
"""How the facts of a dump are counted: all of it, or what is new (rollouts/growing.py)."""

MAX_BESIDE = 3  # log files in a folder up to which a dump beside a named one can only be this run's (convention)
MAX_FOLDERS = 16  # folders beside a named log up to which they can be a run's own (convention)
MAX_ENTRIES = 20_000  # entries of such a folder that are looked at
MIN_FIT = 3  # steps per reward component from which the weights of the sum can be told
FIT = 1e-4  # of the reward's spread: how far a fitted sum may be from the logged reward, which is printed rounded


def named_dump(path: Path) -> Found | None:
    """Return the training dump that a named file is, None for any other file."""
    found = find(path) if reader_of(path) is not None else None
    return found if found is not None and found.files and not found.reader.refuse else None


def beside(path: Path, places: Places | None = None) -> Found | None:
    """Return the dump of the run that a directory holds or a log file belongs to, None without any.

    Below a directory, a dump that lies in the folder of another log counts to that one (`places`). Beside a single
    file only folders are looked at, and only where no other run's logs lie.
    """
    if path.is_dir():
        return _usable(_in_place(path, {}, places or Places()))
    named = named_dump(path)  # groups that were read as steps
    if named is not None:
        return named
    folder = path.parent.parent if is_checkpoint(path.parent.name) else path.parent
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return None
    if sum(e.is_file() and e.suffix in (".jsonl", ".json", ".csv", ".log", ".txt") for e in entries) > MAX_BESIDE:
        return None
    inside = [e for e in entries if e.is_dir() and not is_checkpoint(e.name) and not has_log(e)]
    for entry in inside if len(inside) <= MAX_FOLDERS else ():
        found = _usable(find(entry, most=MAX_ENTRIES))
        if found is not None:
            return found
    return None


def _in_place(directory: Path, mapping: Mapping[str, str], places: Places) -> Found | None:
    """Return the dump of a directory's run; one in the folder of a copy of its log only where there is no other."""
    strict = (*places.others, *places.copies)
    found = find(directory, mapping, without=strict) if strict else None
    return found or find(directory, mapping, without=places.others)


def _usable(found: Found | None) -> Found | None:
    return found if found is not None and (found.files or found.reader.refuse) else None


def attach(run: Run, found: Found, counting: Count = count) -> Run:
    """Return the run with its rollouts: rollouts/* columns on its steps, and what the trainer did not log filled in.

    A logged column is never overwritten. A dump that can't be read is a note, not an error: the log stands by itself.
    """
    if found.reader.refuse:
        return replace(run, notes=(*run.notes, Note(found.reader.refuse, str(found.files[0]))))
    evaluated = frozenset(int(s) for series in run.evals.values() for s in series.step)
    rollouts = of_found(found, {}, run.config.group_size, evaluated)
    try:
        if found.reader.weights_unknown:
            rollouts = with_weights(run, rollouts)
        folded, rollouts = counting(rollouts)
    except InputError as error:
        return replace(run, notes=(*run.notes, Note(f"rollouts beside the log can't be read: {error}")))
    return joined(run, folded, rollouts)


def joined(run: Run, folded: Folded, rollouts: Rollouts) -> Run:
    """Return the run with the columns that were folded from its rollouts."""
    series = folded.series()
    columns = {name: _aligned(run, *line) for name, line in series.items()}
    columns = {name: column for name, column in columns.items() if bool(np.isfinite(column).any())}
    notes = list(rollouts.notes())
    told = np.unique(np.concatenate([steps for steps, _ in series.values()])) if series else np.zeros(0, np.int64)
    beyond = int(np.setdiff1d(told, run.step).size)
    if beyond:
        notes.append(Note(f"{beyond} of {told.size} steps of the rollouts are not in the log: left out of the series"))
    file = str(rollouts.files[0])
    provenance = {name: Provenance(name, ROLLOUTS, file, Status.DERIVED) for name in columns}
    for name, column in _filled(columns).items():
        if not run.has(name) and not _logged_family(run, name):
            columns[name] = column
            provenance[name] = Provenance(
                name, ROLLOUTS, file, Status.DERIVED, "batch" if name == "reward_std" else "", note="from the rollouts"
            )
    return replace(
        run,
        columns={**run.columns, **columns},
        provenance={**run.provenance, **provenance},
        notes=(*run.notes, *notes),
        rollouts=rollouts,
    )


def _aligned(run: Run, steps: np.ndarray, values: Float64) -> Float64:
    """Return a series on the run's steps, NaN where the dump has none."""
    out = np.full(run.rows, np.nan)
    at = np.searchsorted(run.step, steps)
    there = (at < run.rows) & (run.step[np.minimum(at, run.rows - 1)] == steps) if run.rows else np.zeros(0, bool)
    out[at[there]] = values[there]
    return np.where(np.isfinite(out), out, np.nan)


def _filled(columns: Mapping[str, Float64]) -> dict[str, Float64]:
    """Return the series under the names that the step log would give them; one family alone says nothing of its own."""
    out: dict[str, Float64] = {}
    for name, column in columns.items():
        canonical = name.removeprefix(f"{ROLLOUTS}/")
        if canonical == name or lookup(canonical) is None:
            continue
        out[canonical] = column
    alone = [name for name in out if name.startswith("reward_family/")]
    if len(alone) == 1:
        del out[alone[0]]
    return out


def _logged_family(run: Run, name: str) -> bool:
    head, slash, _ = name.partition("/")
    return bool(slash) and any(run.has(member) for member in run.family(f"{head}/"))


def table_of(found: Found, group_size: int | None = None, counting: Count = count) -> tuple[RawTable, Folded, Rollouts]:
    """Read a dump without a log: its steps in canonical names. Raises InputError."""
    folded, rollouts = counting(of_found(found, {}, group_size))
    text = f"a rollout dump: {folded.rollouts:,} rollouts averaged per step"
    note = Note(text, str(found.files[0]), 0, folded.rollouts)
    return steps_table(folded.series(), str(found.files[0]), (note,)), folded, rollouts


def steps_table(series: Series, source: str, notes: tuple[Note, ...]) -> RawTable:
    """Return one row per step in canonical names."""
    filled = _filled({name: values for name, (_, values) in series.items()})
    rows: dict[int, dict[str, object]] = {}
    for name in filled:
        steps, values = series[f"{ROLLOUTS}/{name}"]
        for step, value in zip(steps.tolist(), values.tolist(), strict=True):
            if np.isfinite(value):
                rows.setdefault(step, {"step": step})[name] = value
    builder = TableBuilder(source)
    for number, step in enumerate(sorted(rows)):
        builder.add(rows[step], number + 1)
    return builder.build(notes)


def with_weights(run: Run, rollouts: Rollouts) -> Rollouts:
    """Return the rollouts with the weights of their reward's components, where the logged rewards tell them."""
    logged = dict(zip(run.step.tolist(), run.values("reward_mean").tolist(), strict=True))
    sums: dict[int, dict[str, tuple[float, int]]] = {}
    for batch in rollouts.scan(("reward", PART)):
        if batch.has("split"):
            batch = batch.take(np.flatnonzero(batch.text("split") != "eval"))
        for step in np.unique(batch.integer("step")).tolist():
            rows = np.flatnonzero(batch.integer("step") == step)
            held = sums.setdefault(step, {})
            for name in batch.parts():
                values = batch.number(PART + name)[rows]
                total, n = held.get(name, (0.0, 0))
                held[name] = (total + float(np.nansum(values)), n + int(np.isfinite(values).sum()))
    names = sorted({name for held in sums.values() for name in held})
    whole = [s for s, held in sums.items() if all(held.get(n, (0, 0))[1] for n in names)]
    steps = [s for s in whole if np.isfinite(logged.get(s, np.nan))]
    if not names or len(steps) < MIN_FIT * len(names):
        return rollouts
    a = np.array([[sums[s][n][0] / sums[s][n][1] for n in names] for s in steps])
    b = np.array([logged[s] for s in steps])
    fit, _, rank, _ = np.linalg.lstsq(a, b, rcond=None)
    off = np.abs(a @ fit - b)
    if rank < len(names) or float(np.median(off)) > FIT * max(float(np.ptp(b)), 1e-12):
        return rollouts
    return replace(rollouts, weights={n: round(float(w), 4) for n, w in zip(names, fit, strict=True)})


def opened(path: Path, mapping: Mapping[str, str] | None = None, group_size: int | None = None) -> Rollouts:
    """Return the rollouts of a dump or of a run's directory, with what the log beside them tells.

    Raises InputError without any, SeveralRuns for a directory that holds more than one run.
    """
    if not path.is_dir():
        return open_rollouts(path, mapping=mapping, group_size=group_size)
    places = places_in(path)
    found = _in_place(path, mapping or {}, places)
    if found is None or not (found.files or found.evaluation):
        return open_rollouts(path, mapping=mapping, group_size=group_size)  # says why
    return with_log(path, of_found(found, mapping or {}, group_size))


def with_log(path: Path, rollouts: Rollouts) -> Rollouts:
    """Return the rollouts with what the log beside them tells: group size, evaluations, weights of the reward."""
    from rlvitals.ingest.loading import load

    if not path.is_dir():
        return rollouts
    try:
        run = load(path, rollouts=False)
    except InputError:
        return rollouts
    evaluated = frozenset(int(s) for series in run.evals.values() for s in series.step)
    told = replace(rollouts, group_size=rollouts.group_size or run.config.group_size, evaluated=evaluated)
    return with_weights(run, told) if told.reader.weights_unknown else told
