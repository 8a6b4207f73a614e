"""U007: the loss is exactly zero where the loss type forbids it."""

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
from rlvitals.checks.signal_common import zero_may_be_rounding
from rlvitals.schema import Float64
from rlvitals.view import Chunk, View

MIN_STREAK = 10
MIXED = 0.95
TOKEN_LOSSES = frozenset({"bnpo", "dapo"})
"""Losses averaged over tokens: with mixed groups and unequal lengths their value is Cov(length, advantage), not 0."""


def _zero(chunk: Chunk) -> tuple[np.ndarray, np.ndarray, Float64]:
    """Test the rows with a mixed group and unequal lengths."""
    loss, share = chunk.col("loss"), chunk.col("zero_variance_frac")
    with np.errstate(invalid="ignore"):
        unequal = (chunk.col("length_max") > chunk.col("length_min")) | (chunk.col("length_std") > 0)
        mixed = (share <= MIXED) | (chunk.col("advantage_std") > 1e-3)
    return np.isfinite(loss) & mixed & unequal, loss == 0.0, loss


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    state: Tally = view.state
    by_token = (view.config.loss_type or "").lower() in TOKEN_LOSSES or view.config.loss_aggregation == "token mean"
    if not by_token:
        known = view.config.loss_type or view.config.loss_aggregation
        reason = f"the {known} loss" if known else "a loss of unknown aggregation"
        return NotApplicable(f"{reason} is 0 by construction on policy: its value says nothing")
    if state.tested == 0:
        missing = ("zero_variance_frac", "length_min", "length_max")
        return NoData(tuple(m for m in missing if not view.has(m)) or missing, "no row shows a mixed group and lengths")
    if state.streak < MIN_STREAK:
        return Clear(
            f"the loss is exactly 0 in the last {state.streak} of {state.tested} rows with mixed groups; limit "
            f"{MIN_STREAK}"
        )
    if zero_may_be_rounding(view, "loss", unit=1e-4):
        return Clear("the loss is printed with few decimals: its zeros are rounding")
    since = state.streak_from if state.streak_from is not None else view.first_step
    steps, norms = view.recent("grad_norm")
    norms = norms[steps >= since]
    moving = norms.size > 0 and bool(np.any(norms > 0))
    evidence = Evidence(
        metric="loss",
        text=f"the loss is exactly 0 in the last {state.streak} rows with mixed groups and unequal lengths, since step "
        f"{since}; a token mean is the covariance of length and advantage there"
        + (f", and the gradient norm is up to {norms.max():.3g}" if moving else ""),
        observed=0.0,
        unit="loss",
        steps=(since, view.step),
        threshold=limits["loss"],
        comparison="==",
    )
    action, confidence = (Action.WATCH, Confidence.LOW) if moving or norms.size == 0 else (Action.FIX, Confidence.HIGH)
    summary = f"the loss is exactly 0 since step {since}, which a token mean over mixed groups cannot be"
    return Fired(
        Finding(summary, action, confidence, Onset(since, since), (evidence,), "gradient flows" if moving else "")
    )


CHECK = Check(
    id="U007",
    name="loss-exactly-zero",
    family=Family.UPDATE,
    fault="The loss is exactly zero where its own formula forbids it.",
    why="A per-sequence mean is 0 on policy by construction, which is the commonest false alarm of GRPO. A mean "
    "over tokens "
    "is not: long answers weigh more. Exactly 0 then means that no token reaches the loss.",
    needs=Needs(all_of=("loss",), rows=MIN_STREAK),
    thresholds=(
        Threshold("loss", 0, "loss", SourceKind.DEFINITION, "mean over tokens = Cov(length, advantage) / mean length"),
    ),
    judge=judge,
    fold=tally(_zero, needs=("loss",)),
    plans={
        "": Plan(
            remedies=(
                Remedy("Check the completion mask: count the tokens that enter the loss of one step", "", "check"),
                Remedy(
                    "Check whether all completions are dropped as truncated or filtered", "masks_truncated", "check"
                ),
            ),
            verify=(Verify("the loss differs from 0", "loss", "!=", 0.0, 10),),
        ),
        "gradient flows": Plan(
            remedies=(
                Remedy("Log the loss with more decimals; the gradient shows that training goes on", "", "check"),
            ),
            verify=(Verify("the loss differs from 0", "loss", "!=", 0.0, 10),),
        ),
    },
    leads_to=("U001", "U008"),
    look_alikes=(
        LookAlike("One update per batch and a per-sequence mean: 0 by construction", "the loss type"),
        LookAlike("Four printed decimals and a small KL coefficient", "the gradient norm is above 0"),
        LookAlike("All answers have the same length: the covariance is 0", "shortest and longest length differ"),
    ),
    sources=("docs/false-alarms.md: 1", "trl#3452"),
)
