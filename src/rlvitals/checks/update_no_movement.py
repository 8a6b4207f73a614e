"""U008: the policy does not move: its distance to the reference is exactly zero after many updates."""

from __future__ import annotations

from collections.abc import Mapping

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
    LookAlike,
    Needs,
    NoData,
    NotApplicable,
    Onset,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Tally,
    Threshold,
    Verify,
    tally,
)
from rlvitals.checks.signal_common import tied_groups, zero_may_be_rounding
from rlvitals.schema import Float64
from rlvitals.view import Chunk, View

MIN_STREAK = 10  # rows with a KL of exactly 0
MIN_STEP = 10  # steps after which a first update must have happened, warm-up included


def _zero(chunk: Chunk) -> tuple[np.ndarray, np.ndarray, Float64]:
    kl, rate = chunk.col("kl_ref"), chunk.col("learning_rate")
    return np.isfinite(kl) & ~(rate == 0.0), kl == 0.0, kl


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    state: Tally = view.state
    rate = view.config.learning_rate
    coefs = view.recent("kl_coef")[1]
    coef = view.config.kl_coef if view.config.kl_coef is not None else (float(coefs[-1]) if coefs.size else None)
    if state.tested < MIN_STREAK:
        return _rate(view, rate, limits) or NoData(("kl_ref",), f"{state.tested} values; {MIN_STREAK} are needed")
    if state.failed < state.tested:
        moved = view.extremes("kl_ref")
        return _rate(view, rate, limits) or Clear(f"the KL to the reference reaches {moved[2]:.3g} at step {moved[3]}")
    if not coef:
        reason = "no KL coefficient is set" if coef == 0 else "the KL coefficient is unknown"
        return NotApplicable(f"the KL is 0 throughout and {reason}: the zeros may stand for no reference model")
    if view.config.reference_reset_steps == 1:
        return NotApplicable("the reference follows the policy at every step")
    if view.step < MIN_STEP or zero_may_be_rounding(view, "kl_ref"):
        return NoData(("kl_ref",), "printed with three decimals: 0.000 may be up to 0.0005")
    evidence = Evidence(
        metric="kl_ref",
        text=f"the KL to the reference is exactly 0 in all of {state.tested} rows up to step {view.step}, with "
        "coefficient "
        f"{coef:g} and a learning rate above 0; the first update makes it positive",
        observed=0.0,
        unit="nats/token",
        steps=(view.first_seen("kl_ref"), view.step),
        threshold=limits["kl_ref"],
        comparison="==",
    )
    tied = tied_groups(view)
    idle = tied is not None and tied.size > 0 and bool(np.all(tied.values >= 0.999))
    summary = "the policy has not moved: its KL to the reference is exactly 0 after many steps"
    summary += ", as no group had a reward difference" if idle else ", no update reaches the weights"
    since = view.first_seen("kl_ref")
    return Fired(
        Finding(summary, Action.FIX, Confidence.HIGH, Onset(since, since), (evidence,), "no signal" if idle else "")
    )


def _rate(view: View, configured: float | None, limits: Mapping[str, Threshold]) -> Outcome | None:
    """Return a finding when the highest learning rate so far is far too low to move a policy, else None."""
    limit = limits["lowest_rate"]
    highest = view.extremes("learning_rate")[2] if view.has("learning_rate", MIN_STREAK) else float("nan")
    rate = configured if configured is not None else highest
    if not 0 < rate < limit.value:
        return None
    evidence = Evidence(
        metric="learning_rate",
        text=f"the learning rate is {rate:.3g}; limit {limit}",
        observed=rate,
        unit="1/step",
        steps=(view.first_step, view.step),
        threshold=limit,
        comparison="<",
    )
    summary = f"the learning rate of {rate:.3g} is too low to move the policy"
    onset = Onset(view.first_step, view.first_step)
    return Fired(Finding(summary, Action.WATCH, Confidence.MEDIUM, onset, (evidence,), "rate too low"))


CHECK = Check(
    id="U008",
    name="no-movement",
    family=Family.UPDATE,
    fault="The policy does not move: its distance to the reference stays exactly zero.",
    why="Any update with a learning rate above 0 makes the divergence to the reference positive. Exactly 0 after "
    "many steps "
    "means that no update reaches the weights that are measured: nothing to learn from, frozen parameters, an "
    "adapter that "
    "is not active, or a reference that shares the policy's weights.",
    needs=Needs(any_of=("learning_rate", "grad_norm", "kl_loss", "reward_mean"), rows=MIN_STREAK),
    thresholds=(
        Threshold("kl_ref", 0, "nats/token", SourceKind.DEFINITION, "a divergence is 0 only between equal policies"),
        Threshold(
            "lowest_rate", 1e-8, "1/step", SourceKind.CONVENTION, "100 times below the usual 1e-6 of full training"
        ),
    ),
    judge=judge,
    fold=tally(_zero, needs=("kl_ref",)),
    plans={
        "": Plan(
            remedies=(
                Remedy("Compare a checksum of the trained parameters before and after one step", "", "check"),
                Remedy(
                    "Check that the adapter is active and that the reference does not share its weights", "", "check"
                ),
            ),
            verify=(Verify("the KL to the reference is above 0", "kl_ref", ">", 0.0, 10),),
        ),
        "no signal": Plan(
            remedies=(Remedy("Restore reward differences within groups first", "curriculum", "set"),),
            verify=(Verify("the KL to the reference is above 0", "kl_ref", ">", 0.0, 20),),
        ),
        "rate too low": Plan(
            remedies=(
                Remedy(
                    "Raise the learning rate: 1e-6 for full training, about 1e-5 for LoRA", "learning_rate", "raise"
                ),
            ),
            verify=(Verify("the reward moves beyond its noise", "reward_mean", "", None, 100),),
        ),
    },
    leads_to=("R010", "K002"),
    look_alikes=(
        LookAlike("No reference model: a constant 0 is written", "the KL coefficient is 0 or unknown"),
        LookAlike("Warm-up: the learning rate is still 0", "rows with a rate of 0 are left out"),
        LookAlike("A KL of 5e-4, usual in the first tens of steps", "it is above 0"),
    ),
    sources=("docs/false-alarms.md: 4", "docs/false-alarms.md: 5", "docs/false-alarms.md: 35"),
)
