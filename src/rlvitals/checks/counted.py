"""Events counted out of cases, row by row: over the whole run so far, or over the last rows where they are denser."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from rlvitals.check import Fold
from rlvitals.view import Chunk, View

ROWS = 20  # recent rows; an event that did not occur in them is over


@dataclass(frozen=True, slots=True)
class Counted:
    """Cases and events so far, and the steps of the first and the last event, -1 for none."""

    cases: float = 0.0
    events: float = 0.0
    first: int = -1
    last: int = -1


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a run in which events are densest: cases, events, and where, in words."""

    cases: float
    events: float
    where: str

    @property
    def share(self) -> float:
        return self.events / self.cases if self.cases else 0.0


def counter(cases: str, events: str) -> Fold:
    """Return a fold that counts two metrics of counts."""
    return Fold(Counted(), partial(_step, cases, events), (cases, events))


def _step(cases: str, events: str, state: Counted, chunk: Chunk) -> Counted:
    n, hit = np.nan_to_num(chunk.col(cases)), np.nan_to_num(chunk.col(events))
    at = np.flatnonzero(hit > 0)
    first, last = (int(chunk.steps[at[0]]), int(chunk.steps[at[-1]])) if at.size else (-1, state.last)
    return Counted(
        state.cases + float(n.sum()), state.events + float(hit.sum()), state.first if state.first >= 0 else first, last
    )


def densest(view: View, state: Counted, cases: str, events: str, few: float) -> Part:
    """Return the run so far, or its last rows where they alone have `few` events and a larger share of them."""
    whole = Part(state.cases, state.events, "so far")
    steps, n = view.recent(cases, ROWS)
    if not n.size:
        return whole
    late = Part(float(n.sum()), float(view.recent(events, ROWS)[1].sum()), f"over steps {steps[0]}-{view.step}")
    return late if late.events >= few and late.share > whole.share else whole


def is_over(view: View, state: Counted, cases: str) -> bool:
    """Return True when no event lies within the last rows."""
    steps = view.recent(cases, ROWS)[0]
    return not steps.size or state.last < int(steps[0])
