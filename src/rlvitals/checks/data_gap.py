"""D003: steps are missing from the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rlvitals.check import (
    Action,
    Check,
    Clear,
    Confidence,
    Evidence,
    Family,
    Finding,
    Fired,
    Fold,
    LookAlike,
    Needs,
    NoData,
    Onset,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.view import Chunk, View

FACTOR = 3  # a spacing this many times both its neighbours is a gap and not a changed logging interval
MIN_ROWS = 20


@dataclass(frozen=True, slots=True)
class State:
    carry: tuple[int, ...] = ()  # the last three steps
    gaps: int = 0
    missing: int = 0  # steps that the spacing around the gaps would have logged
    first: tuple[int, int] | None = None  # last step before and first step after the first gap
    widest: tuple[int, int] | None = None


def _step(state: State, chunk: Chunk) -> State:
    steps = np.concatenate([np.asarray(state.carry, dtype=np.int64), chunk.steps])
    carry = tuple(int(s) for s in steps[-3:])
    if steps.size < 4:
        return State(carry, state.gaps, state.missing, state.first, state.widest)
    d = np.diff(steps)
    around = np.maximum(d[:-2], d[2:])
    gaps, missing, first, widest = state.gaps, state.missing, state.first, state.widest
    for i in np.flatnonzero(d[1:-1] >= FACTOR * around):
        gap = (int(steps[i + 1]), int(steps[i + 2]))
        gaps += 1
        missing += (gap[1] - gap[0]) // int(around[i]) - 1
        first = first or gap
        if widest is None or gap[1] - gap[0] > widest[1] - widest[0]:
            widest = gap
    return State(carry, gaps, missing, first, widest)


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    state: State = view.state
    if view.rows < MIN_ROWS:
        return NoData(("step",), f"{view.rows} rows; {MIN_ROWS} are needed to know the usual spacing")
    share = state.missing / (view.rows + state.missing)
    if state.first is None or state.widest is None:
        return Clear(f"no spacing is {FACTOR} times its neighbours over {view.rows} rows")
    evidence = Evidence(
        metric="step",
        text=f"{state.missing} rows are missing in {state.gaps} gaps, {share:.0%} of what the usual spacing would have "
        f"logged; the widest from step {state.widest[0]} to {state.widest[1]}; limit {limits['missing_share']}",
        observed=share,
        unit="share of rows",
        steps=(state.first[0], view.step),
        threshold=limits["missing_share"],
        comparison=">",
    )
    onset = Onset(state.first[0] + 1, state.first[1])
    if share > limits["missing_share"].value:
        summary = f"{share:.0%} of the rows are missing from the log; what happened there cannot be judged"
        return Fired(Finding(summary, Action.WATCH, Confidence.HIGH, onset, (evidence,)))
    summary = f"the log has {state.gaps} gaps, {state.missing} rows in all"
    return Fired(Finding(summary, Action.NOTE, Confidence.HIGH, onset, (evidence,), "small"))


CHECK = Check(
    id="D003",
    name="log-gap",
    family=Family.DATA,
    fault="Steps are missing from the log.",
    why="Onsets inside a gap can only be given as the whole gap, and a fault that began and ended there is invisible. "
    "Gaps come from crashed writers, dropped tracker messages and files pasted together.",
    needs=Needs(),
    thresholds=(Threshold("missing_share", 0.1, "share of rows", SourceKind.CONVENTION, "a tenth of the run unseen"),),
    judge=judge,
    fold=Fold(State(), _step),
    plans={
        "": Plan(
            remedies=(
                Remedy("Read the trainer's own file instead of the tracker's export: it has every step", "", "check"),
                Remedy("Check the writer for errors at the first missing step", "", "check"),
            ),
            verify=(Verify("the spacing of the steps stays the same over the next 50 rows", "", "", None, 50),),
        ),
    },
    look_alikes=(
        LookAlike(
            "The logging interval was changed, from every step to every tenth",
            "the wider spacing stays; a gap has the usual spacing on both sides",
        ),
    ),
    sources=("docs/evidence.md: Version and unit traps",),
)
