"""U001: groups are mixed and the gradient is exactly zero."""

from __future__ import annotations

import math
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
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.signal_common import zero_may_be_rounding
from rlvitals.schema import Float64
from rlvitals.view import Chunk, View

MIXED = 0.95  # a share of tied groups below this leaves signal in at least one group of twenty
UNKNOWN_SHARE = 0.9  # assumed share of tied groups where only "not all tied" is known
MIN_STREAK = 2


@dataclass(frozen=True, slots=True)
class State:
    """The streak of rows, up to now, with a mixed group and a gradient of exactly 0."""

    tested: int = 0
    streak: int = 0
    began: int = -1
    tied: tuple[float, ...] = ()  # shares of tied groups of the streak's rows, the newest 64
    kl_zero: int = 0  # rows of the streak whose KL to the reference is exactly 0 as well
    kl_moved: bool = False  # any other value of it within the streak


def _step(state: State, chunk: Chunk) -> State:
    grad, tied, kl = chunk.col("grad_norm"), _tied(chunk), chunk.col("kl_ref")
    at = np.flatnonzero(np.isfinite(grad) & (tied <= MIXED))
    moving = np.flatnonzero(grad[at] != 0.0)
    tested = state.tested + int(at.size)
    if moving.size:  # the newest gradient above 0 ends every streak before it
        state, at = State(tested), at[moving[-1] + 1 :]
    for i in at:
        state = State(
            tested,
            state.streak + 1,
            state.began if state.streak else int(chunk.steps[i]),
            (*state.tied, float(tied[i]))[-64:],
            state.kl_zero + int(kl[i] == 0.0),
            state.kl_moved or bool(np.isfinite(kl[i]) and kl[i] != 0.0),
        )
    return state


def _tied(chunk: Chunk) -> Float64:
    """Return an upper bound of the share of tied groups per row, 1 where no signal metric proves a mixed group."""
    share = chunk.col("zero_variance_frac")
    spread = np.maximum(np.nan_to_num(chunk.col("advantage_std")), np.nan_to_num(chunk.col("advantage_max")))
    return np.where(np.isfinite(share), share, np.where(spread > 1e-3, UNKNOWN_SHARE, 1.0))


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    state: State = view.state
    if state.tested == 0:
        signal = ("zero_variance_frac", "advantage_std")  # either would do
        there = tuple(m for m in signal if view.has(m))
        return NoData(there or signal, "no row shows both a gradient and a mixed group")
    if state.streak < MIN_STREAK:
        last = view.recent("grad_norm")[1][-1]
        return Clear(f"with mixed groups the gradient norm is above 0; {last:.3g} at the last row")
    if zero_may_be_rounding(view, "grad_norm"):
        return Clear("the gradient norm is printed with three decimals: 0.000 may be up to 0.0005")
    chance = float(np.sum(np.log(np.maximum(state.tied, 1e-3))))
    stuck = bool(view.config.kl_coef) and state.kl_zero == state.streak
    limit = limits["log_chance"]
    if not stuck and chance > limit.value and not _gradient_of_the_row(view):
        return Clear(
            f"the gradient is 0 in {state.streak} rows; the one update behind a row may have had only tied groups, "
            f"chance {math.exp(chance):.2g}; limit e^{limit}"
        )
    return _fired(view, state, stuck, limits)


def _gradient_of_the_row(view: View) -> bool:
    """True when the gradient of a row is that of all the groups it describes: of its one update, or of every one."""
    if "grad_norm" in view.trainer.update_means and view.config.logging_steps in (None, 1):
        return True
    return view.config.logging_steps == 1 and view.config.updates_per_rollout == 1


def _fired(view: View, state: State, stuck: bool, limits: Mapping[str, Threshold]) -> Outcome:
    share = 1 - float(np.mean(state.tied))
    evidence = [
        Evidence(
            metric="grad_norm",
            text=f"the gradient norm is exactly 0 in {state.streak} rows since step {state.began}, although "
            f"{share:.0%} "
            "of the groups were mixed there (mean)",
            observed=0.0,
            unit="norm",
            steps=(state.began, view.step),
            threshold=limits["grad_norm"],
            comparison="==",
        )
    ]
    if stuck:
        evidence.append(
            Evidence(
                metric="kl_ref",
                text="the KL to the reference is exactly 0 in the same rows, with coefficient "
                f"{view.config.kl_coef:g}: "
                "no update has reached the weights",
                observed=0.0,
                unit="nats/token",
                steps=(state.began, view.step),
                threshold=limits["grad_norm"],
                comparison="==",
            )
        )
    summary = f"groups are mixed and the gradient is exactly 0 since step {state.began}: the learning signal is lost"
    if state.kl_moved:
        summary += " on the way to the weights"
    onset = Onset(state.began, state.began)
    return Fired(Finding(summary, Action.FIX, Confidence.HIGH, onset, tuple(evidence)))


CHECK = Check(
    id="U001",
    name="no-gradient-with-signal",
    family=Family.UPDATE,
    fault="Groups are mixed and the gradient is exactly zero: the signal is lost on the way to the weights.",
    why="Mixed groups have non-zero advantages, and their policy gradient is zero only if no trained token or "
    "parameter is "
    "left: frozen parameters, a mask that removes every completion, a detached graph. Reward and advantage curves "
    "look fine.",
    needs=Needs(
        all_of=("grad_norm",),
        any_of=("zero_variance_frac", "advantage_std", "advantage_max"),
        rows=MIN_STREAK,
    ),
    thresholds=(
        Threshold("grad_norm", 0, "norm", SourceKind.DEFINITION, "mixed groups have a policy gradient"),
        Threshold(
            "log_chance",
            -14,
            "log probability",
            SourceKind.DEFINITION,
            "one in a million that every update of the streak met tied groups only",
        ),
    ),
    judge=judge,
    fold=Fold(State(), _step, needs=("grad_norm",)),
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Compare a checksum of the parameters before and after one step; list what requires grad",
                    "",
                    "check",
                ),
                Remedy(
                    "Check the completion mask: how many tokens are trained, and whether all are masked", "", "check"
                ),
                Remedy("Switch off gradient checkpointing or the fused loss for one step and compare", "", "check"),
            ),
            verify=(Verify("the gradient norm is above 0", "grad_norm", ">", 0.0, 10),),
            rollback=Rollback.NONE,
        ),
    },
    leads_to=("U004", "U007", "U008", "R010", "K002"),
    look_alikes=(
        LookAlike(
            "A row averages several steps and shows the gradient of the last, whose groups happened to be tied",
            "how likely that is over the whole streak",
        ),
        LookAlike("The loss is printed as 0", "the gradient norm is above 0"),
        LookAlike("A gradient of 3e-4 printed as 0.000", "every value is a multiple of 0.001"),
    ),
    sources=("docs/evidence.md: What no curve shows", "vlm-grpo#3", "ms-swift#10117"),
)
