"""A broken run beside the mended one: metrics over the same steps of both, and over the last ones of the longer."""

from __future__ import annotations

import math

import numpy as np

from rlvitals.schema import Run

BESIDE = ("reward_mean", "zero_variance_frac", "length_mean", "entropy", "kl_ref", "grad_norm")
PART = 5  # the last fifth of a run is what its end is told by (convention)
Head = tuple[str, ...]
Rows = list[tuple[str, ...]]


def beside(before: Run, after: Run) -> tuple[Head, Rows]:
    """Return head and rows of a table: each metric as the mean over the steps that the head of its column names.

    The runs are compared over the last fifth of the shorter one; where the mended one went on, its own last fifth is
    the third column. A held-out score is the last one within those steps or before them, with its step.
    """
    end = min(int(before.step[-1]), int(after.step[-1]))
    same = (_first(before if before.step[-1] <= after.step[-1] else after), end)
    columns = [("broken", before, same), ("mended", after, same)]
    if int(after.step[-1]) > end:
        columns.append(("mended", after, (_first(after), int(after.step[-1]))))
    # a run that is broken from some step on may be evaluated at other steps: one that both have is compared
    shared = _scored(before).keys() & _scored(after).keys()
    held = [_held_out(run, span[1], shared if span == same else None) for _, run, span in columns]
    rows: Rows = [("held-out score", *held)] if any(held) else []
    for metric in BESIDE:
        cells = [_level(run, metric, span) for _, run, span in columns]
        if any(cells):
            rows.append((metric, *cells))
    return ("", *(f"{name}, {_steps(span)}" for name, _, span in columns)), rows


def _first(run: Run) -> int:
    """Return the first step of the last fifth of a run."""
    return int(run.step[-max(run.rows // PART, 1)])


def _steps(span: tuple[int, int]) -> str:
    return f"step {span[0]}" if span[0] == span[1] else f"steps {span[0]}-{span[1]}"


def _level(run: Run, metric: str, span: tuple[int, int]) -> str:
    """Return the mean over some steps, "" where the metric is not logged."""
    if metric not in run.columns:
        return ""
    values = run.values(metric)[(run.step >= span[0]) & (run.step <= span[1])]
    finite = values[np.isfinite(values)]
    return f"{math.fsum(finite) / finite.size:.3g}" if finite.size else "not finite"


def _held_out(run: Run, last: int, shared: set[int] | None) -> str:
    """Return the latest held-out score up to a step, with its own step; only of `shared` ones where that is given."""
    scores = {s: v for s, v in _scored(run).items() if s <= last and (shared is None or s in shared)}
    return f"{scores[max(scores)]:.3f} at {max(scores)}" if scores else ""


def _scored(run: Run) -> dict[int, float]:
    """Return step -> score of the held-out set that was evaluated most."""
    held = max(run.evals.values(), key=lambda h: h.step.size, default=None)
    return {} if held is None else {int(s): float(v) for s, v in zip(held.step, held.score, strict=True)}
