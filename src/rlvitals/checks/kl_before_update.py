"""K003: KL to the reference is not zero although the weights cannot have changed yet."""

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
    NoData,
    NotApplicable,
    Onset,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import course
from rlvitals.checks.common import fmt
from rlvitals.schema import EventKind
from rlvitals.view import Chunk, View

# TRL and its like: a row is one update, logged from before it; our own trainer scores before the updates of a step
LOGS_BEFORE_UPDATE = ("TRL", "unsloth", "ms-swift", "rlvitals train")


@dataclass(frozen=True, slots=True)
class State:
    """What was logged up to the first positive learning rate."""

    rows: int = 0  # rows with learning rate 0 that carry a KL
    largest: float = 0.0  # largest absolute KL among them
    at: int = -1  # its step
    first: float = float("nan")  # KL of the first row
    first_rate: float = float("nan")
    closed: bool = False  # a row without learning rate, or with a positive one, has been seen
    positive: bool = False  # it was a positive one


def _step(state: State, chunk: Chunk) -> State:
    rate, kl = chunk.col("learning_rate"), chunk.col("kl_ref")
    for i in np.flatnonzero(np.isfinite(rate) | np.isfinite(kl)):
        if state.closed and (state.positive or not np.isfinite(state.first_rate)):
            return state
        if not np.isfinite(state.first) and not state.closed:
            state = replace(state, first=float(kl[i]), first_rate=float(rate[i]))
        if rate[i] != 0.0:
            state = replace(state, closed=True, positive=state.positive or bool(rate[i] > 0))
        elif np.isfinite(kl[i]) and not state.closed:
            larger = abs(kl[i]) > state.largest
            state = replace(
                state,
                rows=state.rows + 1,
                largest=float(abs(kl[i])) if larger else state.largest,
                at=int(chunk.steps[i]) if larger else state.at,
            )
    return state


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    state: State = view.state
    if view.first_step > 1 or any(e.kind is EventKind.RESUME for e in view.events):
        return NotApplicable(f"the log starts at step {view.first_step}: the first update is not in it")
    if state.rows and state.positive:
        return _answer(state.largest, state.at, f"over {state.rows} rows with learning rate 0", view, limits)
    if state.rows and np.isfinite(state.first):  # 0 in every row may be a rounded 1e-6: the first row alone is sure
        return _answer(abs(state.first), view.first_step, "in the first step, with learning rate 0", view, limits)
    one_update = view.config.updates_per_rollout is not None and view.config.updates_per_rollout <= 1
    first_precedes = one_update or view.trainer.name in LOGS_BEFORE_UPDATE
    every_step = (view.config.logging_steps or course.row_spacing(view, "kl_ref")) == 1
    at_once = view.first_seen("kl_ref") == view.first_step
    if np.isfinite(state.first) and first_precedes and every_step and at_once:
        return _answer(abs(state.first), view.first_step, "in the first step, which precedes any update", view, limits)
    return NoData(
        ("learning_rate", "updates_per_rollout"),
        "needs a row before the first update: learning rate 0, or a first step with one update per rollout batch",
    )


def _answer(value: float, step: int, when: str, view: View, limits: Mapping[str, Threshold]) -> Outcome:
    numerics, differs, broken = limits["numerics"], limits["not_numerics"], limits["impossible"]
    if not value > numerics.value:
        return Clear(f"KL to the reference is at most {fmt(value)} nats {when}; limit {numerics}")
    full = view.config.uses_lora is False and value > differs.value
    limit = broken if value > broken.value else differs if value > differs.value else numerics
    evidence = Evidence(
        "kl_ref",
        f"KL to the reference is {fmt(value)} nats at step {step}, {when}: the same weights would "
        f"give 0 up to numerics; "
        f"limit {limit}",
        value,
        "nats",
        (step, step),
        limit,
        ">",
        0.0,
    )
    onset = Onset(step, step)
    text = f"KL to the reference is {fmt(value)} nats before any update"
    if limit is broken or full:
        what = f"{text}: the reference is another model, or the two forward passes differ"
        return Fired(Finding(what, Action.FIX, Confidence.HIGH, onset, (evidence,)))
    what = f"{text}: training starts away from its reference (an adapter trained before, or unequal forward passes)"
    confidence = Confidence.LOW if limit is numerics else Confidence.MEDIUM
    return Fired(Finding(what, Action.WATCH, confidence, onset, (evidence,), "another start"))


CHECK = Check(
    id="K003",
    name="kl-before-update",
    family=Family.LEASH,
    fault="The policy seems to differ from its reference before it was ever changed.",
    why="Before the first update policy and reference are the same weights, so any KL beyond "
    "numerical noise comes from "
    "two different forward passes: another precision, an adapter that is switched on in one, dropout, a patched "
    "attention. Drift is impossible at that point, so learning rate and coefficient are not the cause, and every "
    "later KL value carries the same error.",
    needs=Needs(all_of=("kl_ref",)),
    thresholds=(
        Threshold(
            "numerics",
            0.01,
            "nats",
            SourceKind.MEASURED,
            "docs/measurements.md: Sampler and trainer numerics (k3 of two bf16 passes is below 2e-3)",
        ),
        Threshold(
            "not_numerics",
            0.05,
            "nats",
            SourceKind.DEFINITION,
            "KL of a policy to itself is 0; 25 times the largest value explained by bf16",
        ),
        Threshold(
            "impossible",
            10,
            "nats",
            SourceKind.DEFINITION,
            "KL of a policy to itself is 0; 10 nats per token are beyond two checkpoints of one model",
        ),
    ),
    judge=judge,
    fold=Fold(State(), _step),
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Compare the log-probabilities of one batch by policy and reference on the same weights",
                    "",
                    "check",
                ),
                Remedy(
                    "Look at the forward path: adapter switch, precision, dropout, patched kernels, checkpointing",
                    "",
                    "check",
                ),
            ),
            verify=(Verify("KL of the first step is below 0.01 nats", "kl_ref", "first <", 0.01, 1),),
        ),
        "another start": Plan(
            remedies=(
                Remedy("Check that the reference is the checkpoint that training starts from", "", "check"),
                Remedy("If an adapter was trained before, expect this KL from the first step on", "", ""),
            ),
            verify=(Verify("KL of the first step is below 0.01 nats", "kl_ref", "first <", 0.01, 1),),
        ),
    },
    leads_to=("K001", "U002", "R002", "E002"),
    look_alikes=(
        LookAlike(
            "KL above 0 in the first logged row", "several updates per rollout, or a row that averages several steps"
        ),
        LookAlike(
            "An adapter trained before goes on training; the reference is the base model", "below 10 nats: watch"
        ),
        LookAlike("KL of 1e-3 at learning rate 0", "numerical noise of two forward passes"),
        LookAlike("A log that starts in the middle of a run", "the first update is not in it"),
    ),
    sources=("docs/false-alarms.md: 4", "docs/false-alarms.md: 6", "unsloth PR#4934"),
)
