"""Events counted out of cases, row by row: over the whole run so far, or over the last rows where they are denser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from rlvitals.check import Action, Clear, Confidence, Evidence, Finding, Fired, Fold, NoData, Onset, Outcome, Threshold
from rlvitals.view import Chunk, View

ROWS = 20  # recent rows; an event that did not occur in them is over


@dataclass(frozen=True, slots=True)
class Told:
    """What a check of rollouts says of its count; `{cases}`, `{events}`, `{share}` and `{where}` are a `Part`'s.

    Attributes:
        few: what fewer rollouts than it needs are.
        count: the count itself.
        fault: what it means where it is a fault.
        examples: the rollout fact that chooses its examples.
    """

    few: str
    count: str
    fault: str
    examples: str


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


def judge(view: View, limits: Mapping[str, Threshold], cases: str, events: str, told: Told) -> Outcome:
    """Return FIX for rollouts of which the limit `share` and more, and as many as the limit `rollouts`, are events."""
    found: Counted = view.state
    share, few = limits["share"], limits["rollouts"]
    if not found.cases >= few.value:
        return NoData((cases,), f"fewer than {few.value:g} rollouts {told.few}")
    part = densest(view, found, cases, events, few.value)
    said = {"cases": f"{part.cases:.0f}", "events": f"{part.events:.0f}", "share": f"{part.share:.0%}"}
    text = told.count.format(**said, where=part.where)
    if part.events < few.value or part.share < share.value or is_over(view, found, cases):
        since = f", the last one in step {found.last}" if found.last >= 0 else ""
        return Clear(f"{text}{since}; limit {share} and {few.value:g} rollouts")
    evidence = Evidence(
        events,
        f"{text}; the first one in step {found.first}; limit {share}",
        part.share,
        share.unit,
        (found.first, found.last),
        share,
        ">=",
        examples=view.examples(told.examples, 3),
    )
    onset = Onset(found.first, found.first)
    return Fired(Finding(told.fault.format(**said), Action.FIX, Confidence.HIGH, onset, (evidence,)))
