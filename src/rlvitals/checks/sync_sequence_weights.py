"""Y007: weights made of whole-sequence sums leave a handful of rollouts in the update."""

from __future__ import annotations

from collections.abc import Mapping

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
    NotApplicable,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt, onset_of
from rlvitals.checks.config_common import SEQUENCE_LEVELS
from rlvitals.checks.rollout_common import began, recent, speaks
from rlvitals.view import View

ESS, SPREAD, LENGTH = "rollouts/sequence_ess", "rollouts/sequence_log_sd", "rollouts/sequence_length_corr"
NORMALISED = ("gspo",)  # the mean over the sequence's tokens: its weight does not grow with length


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    config = view.config
    if config.sampler_correction is False:
        return NotApplicable("no importance weights correct the sampler")
    if config.importance_level == "token":
        return NotApplicable("weights are per token: sums over the sequence are not used")
    if (config.loss_type or "") in NORMALISED:
        return NotApplicable(f"{config.loss_type} takes the mean over a sequence's tokens, not the sum")
    now, spread, length = recent(view, ESS), recent(view, SPREAD), recent(view, LENGTH)
    limit = limits["effective_share"]
    seen = f"weights of summed log-ratios leave {now.mean:.0%} of the rollouts"
    if now.mean >= limit.value:
        return Clear(f"{seen}; limit {limit}")
    evidence = [speaks(now, seen, limit, "<", before=began(view, ESS), examples=view.examples("token-mismatch", 2))]
    if spread.n:
        text = f"the summed log-ratio of a sequence spreads by {fmt(spread.mean)} nats"
        evidence.append(Evidence(SPREAD, text, spread.mean, "nats", spread.span))
    grows = limits["with_length"]
    with_length = length.n >= 5 and abs(length.mean) >= grows.value and abs(length.sure()) > limits["z"].value
    if with_length:
        text = f"the summed log-ratio follows the length (correlation {length.mean:+.2f})"
        evidence.append(speaks(length, text, grows, ">=", observed=abs(length.mean), before=0.0))
    onset = onset_of(view, ESS, 0.0, limit.value)
    known = config.importance_level in SEQUENCE_LEVELS
    if_used = "" if known else ", if such weights are used"
    what = f"{now.mean:.0%} of the rollouts carry the update{if_used}: sequence weights are too uneven"
    confidence = Confidence.HIGH if known else Confidence.LOW
    return Fired(Finding(what, Action.WATCH, confidence, onset, tuple(evidence), "drift" if with_length else ""))


CHECK = Check(
    id="Y007",
    name="sequence-weights-degenerate",
    family=Family.SYNC,
    fault="Importance weights made of whole-sequence sums are so uneven that a handful of rollouts carry the update.",
    why="The logarithm of such a weight is a sum over tokens: with token noise s its spread is s times the root of the "
    "length, and the effective sample size exp(-s^2 L). Long answers then have weight 0 or infinity whatever their "
    "advantage; the gradient norm falls by orders of magnitude while everything else looks fine.",
    needs=Needs(all_of=(ESS,), rows=10),
    thresholds=(
        Threshold(
            "effective_share",
            0.3,
            "of rollouts",
            SourceKind.PAPER,
            "verl rollout correction documentation: effective sample size at least 0.3",
        ),
        Threshold("with_length", 0.3, "correlation", SourceKind.CONVENTION, "a clear drift per token"),
        Threshold("z", 4, "standard errors", SourceKind.MEASURED, "docs/measurements.md: Rollout checks"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Weigh tokens instead of sequences, truncated at 2", "importance_level", "set"),
                Remedy(
                    "Or take the mean over the sequence's tokens (GSPO) instead of the sum", "importance_level", "set"
                ),
            ),
            verify=(Verify("more than 30% of the rollouts carry the update", ESS, ">", 0.3, 20),),
        ),
    },
    leads_to=("U001", "U006", "R010"),
    patience=2,
    look_alikes=(
        LookAlike("Weights per token, or means over a sequence", "the configured level: not judged"),
        LookAlike("A step with one odd rollout", "the mean of 20 steps is judged"),
    ),
    sources=("NeMo-RL PR#2269", "trl#5814", "trl#4772", "docs/evidence.md: What no curve shows"),
)
