"""Parts of a run: the rows before and after a step, each a run of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rlvitals.engine import run_engine
from rlvitals.errors import InputError, Problem
from rlvitals.schema import Evals, Float64, Run
from rlvitals.view import View


def before(run: Run, step: int) -> Run:
    """Return the run as it stood before `step`. Raises InputError when no row lies there."""
    if run.rows == 0 or int(run.step[0]) >= step:
        first = int(run.step[0]) if run.rows else 0
        raise InputError(
            Problem("nothing before it", f"step {step}", f"the first step of {run.name} is {first}", "a later step")
        )
    return run.until(step - 1)


def after(run: Run, step: int) -> Run:
    """Return the rows from `step` on as a run of their own. Raises InputError when no row lies there."""
    begin = int(np.searchsorted(run.step, step, side="left"))
    if begin >= run.rows:
        last = int(run.step[-1]) if run.rows else 0
        raise InputError(
            Problem("nothing after it", f"step {step}", f"the last step of {run.name} is {last}", "an earlier step")
        )
    evals = {}
    for name, held in run.evals.items():
        keep = held.step >= step
        if keep.any():
            evals[name] = replace(held, step=held.step[keep], score=held.score[keep], stderr=held.stderr[keep])
    return replace(
        run,
        step=run.step[begin:],
        columns={name: column[begin:] for name, column in run.columns.items()},
        evals=evals,
        segments=(),
        events=tuple(e for e in run.events if e.step is not None and e.step >= step),
    )


def in_order(earlier: Run, later: Run, paths: tuple[str, str]) -> None:
    """Refuse two runs of which the first is not older: the same rows twice, or a part that begins after the other ends.

    A run that was started anew after the fix, at step 1 again, is in order. `paths` name both in the message. Raises
    InputError.
    """
    where = f"--before {paths[0]}"
    span = f"steps {int(earlier.step[0])} to {int(earlier.step[-1])}"
    if np.array_equal(earlier.step, later.step) and _same_columns(earlier, later):
        raise InputError(
            Problem("it is the same run as --after", where, f"the same {earlier.rows} rows, {span}",
                    "the run as it was before the fix",
                    f"Both parts in one run: rlvitals verify {paths[1]} --since STEP")
        )  # fmt: skip
    if int(earlier.step[0]) > int(later.step[-1]):
        raise InputError(
            Problem("it is not older than --after", where,
                    f"{span}; --after {paths[1]} has steps {int(later.step[0])} to {int(later.step[-1])}",
                    "a run that begins before the other ends",
                    f"The other way round: rlvitals verify --before {paths[1]} --after {paths[0]}")
        )  # fmt: skip


def _same_columns(one: Run, other: Run) -> bool:
    return one.columns.keys() == other.columns.keys() and all(
        np.array_equal(column, other.columns[name], equal_nan=True) for name, column in one.columns.items()
    )


def joined(earlier: Run, later: Run) -> Run:
    """Return the rows of `earlier` up to where `later` begins, then those of `later`: one run with one baseline."""
    first = int(later.step[0])
    kept = earlier.until(first - 1)
    names = (*kept.columns, *(n for n in later.columns if n not in kept.columns))

    def column(name: str) -> Float64:
        parts = (part.columns.get(name, np.full(part.rows, np.nan)) for part in (kept, later))
        return np.concatenate(tuple(parts))

    return replace(
        later,
        step=np.concatenate([kept.step, later.step]),
        columns={name: column(name) for name in names},
        evals={**later.evals, **{n: _held(kept, later, n) for n in kept.evals}},
        events=tuple(dict.fromkeys((*kept.events, *later.events))),
    )


def _held(kept: Run, later: Run, name: str) -> Evals:
    first, second = kept.evals[name], later.evals.get(name)
    if second is None:
        return first
    return replace(
        first,
        step=np.concatenate([first.step, second.step]),
        score=np.concatenate([first.score, second.score]),
        stderr=np.concatenate([first.stderr, second.stderr]),
    )


def view_of(run: Run) -> View:
    """Return what a check sees at the end of a run."""
    return run_engine(run, ()).examine().view
