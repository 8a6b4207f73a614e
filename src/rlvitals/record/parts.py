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
