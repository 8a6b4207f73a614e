"""D001: a logged value is NaN or infinite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

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
    Onset,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.schema import NONFINITE_PREFIX
from rlvitals.view import Chunk, View

WEIGHTS = ("loss", "grad_norm", "entropy", "policy_loss")  # what passes through the weights, or into them
CORE = ("loss", "grad_norm", "entropy", "policy_loss", "reward_mean", "length_mean")
"""A non-finite value here is damage; elsewhere it can be 0/0 in the metric itself (all samples masked on one rank)."""
LOSSES = ("loss", "policy_loss")
SKIPPED = "grad_norm"  # not finite in one row alone: loss scaling and most trainers skip such a step


@dataclass(frozen=True, slots=True)
class State:
    first: tuple[tuple[str, int], ...] = ()  # metric, first step at which it was not finite; in order of appearance
    last_core: int = -1  # last step at which a core metric was not finite
    streak: int = 0  # rows in a row, up to now, with a non-finite core metric
    alone: bool = False  # in the newest of them the gradient's norm was the only one, beside a finite loss


def _step(state: State, chunk: Chunk) -> State:
    names = [n for n in chunk.names if n.startswith(NONFINITE_PREFIX)]
    bad = {n[len(NONFINITE_PREFIX) :]: chunk.col(n) == 1.0 for n in names}
    core, other = np.zeros(chunk.steps.size, dtype=bool), np.zeros(chunk.steps.size, dtype=bool)
    known = dict(state.first)
    fresh: list[tuple[int, str]] = []
    for metric, hit in bad.items():
        if metric in CORE:
            core |= hit
            other |= hit & (metric != SKIPPED)
        if hit.any() and metric not in known:
            fresh.append((int(chunk.steps[np.argmax(hit)]), metric))
    first = (*state.first, *((m, s) for s, m in sorted(fresh)))
    if not core.any():
        return replace(state, first=first, streak=0, alone=False)
    quiet = np.flatnonzero(~core)
    streak = int(core.size - 1 - quiet[-1]) if quiet.size else state.streak + int(core.size)
    alone = bool(core[-1] and not other[-1]) and any(np.isfinite(chunk.col(m)[-1]) for m in LOSSES)
    return State(first, int(chunk.steps[np.flatnonzero(core)[-1]]), streak, alone)


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    state: State = view.state
    if not state.first:
        return Clear("every logged value is finite")
    core = [(m, s) for m, s in state.first if m in CORE]
    metric, since = core[0] if core else state.first[0]
    others = ", ".join(f"{m} (step {s})" for m, s in state.first if m != metric)
    evidence = Evidence(
        metric=metric,
        text=f"{metric} is not a finite number at step {since}, for the first time"
        + (f"; also {others}" if others else "")
        + (f"; last at step {state.last_core}" if core else ""),
        observed=float("nan"),
        unit="",
        steps=(since, max(state.last_core, since)),
        threshold=limits["nonfinite_rows"],
        comparison=">",
    )
    if not core:
        action, what = Action.WATCH, f"{metric} is not finite from step {since}, while loss and gradient are"
    elif state.streak == 0:
        action, what = Action.WATCH, f"{metric} was not finite at step {since} and is finite again"
    elif state.streak == 1 and state.alone:
        action = Action.WATCH
        what = (
            f"{SKIPPED} is not finite at step {state.last_core} while the loss is: the trainer skipped that step, or "
            "the run is breaking; the next row tells"
        )
    else:
        harm = "the weights are damaged from there on" if metric in WEIGHTS else "what it measures is broken"
        action, what = Action.STOP, f"{metric} is not finite since step {since}: {harm}"
    return Fired(
        Finding(what, action, Confidence.HIGH, Onset(since, since), (evidence,), "" if core else "metric only")
    )


CHECK = Check(
    id="D001",
    name="non-finite-values",
    family=Family.DATA,
    fault="A logged value is NaN or infinite.",
    why="Every comparison with NaN is false, so threshold rules go silent exactly when a run dies. A non-finite "
    "loss or "
    "gradient usually reaches the weights with the next update, and every metric after it describes broken weights.",
    needs=Needs(),
    thresholds=(
        Threshold("nonfinite_rows", 0, "rows", SourceKind.DEFINITION, "a loss, gradient or entropy is a real number"),
    ),
    judge=judge,
    fold=Fold(State(), _step),
    plans={
        "": Plan(
            remedies=(
                Remedy("Stop, and resume from a checkpoint saved before the first non-finite value", "", ""),
                Remedy(
                    "Find which quantity became non-finite first: log-probabilities, ratio, KL or loss",
                    "",
                    "check",
                ),
                Remedy(
                    "Lower the learning rate or the gradient-norm limit if a spike came before it",
                    "learning_rate",
                    "lower",
                ),
            ),
            verify=(Verify("no non-finite value over the next 50 steps", "grad_norm", "finite", None, 50),),
            rollback=Rollback.BEFORE_ONSET,
        ),
        "metric only": Plan(
            remedies=(
                Remedy(
                    "Check whether a rank had no unmasked sample: 0/0 in the metric, not in the loss",
                    "",
                    "check",
                ),
            ),
            verify=(Verify("loss and gradient norm stay finite", "grad_norm", "finite", None, 20),),
        ),
    },
    leads_to=("R001", "R002", "S001", "L001", "E001", "E002", "U001", "U002", "K001", "D004"),
    look_alikes=(
        LookAlike(
            "NaN in KL and clip fraction only: the overlong filter masked every sample of one rank",
            "loss, gradient norm and entropy are finite at the same steps",
        ),
        LookAlike(
            "A step that loss scaling skips: the gradient's norm is infinite once",
            "the loss is finite, and so is the next row: watch until it is there",
        ),
    ),
    sources=("docs/false-alarms.md: 27", "verl#721"),
)
