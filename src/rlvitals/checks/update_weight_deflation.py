"""U006: the importance weights between sampler and trainer shrink the update."""

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
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import RECENT
from rlvitals.checks.signal_common import centre, lasting_onset, span
from rlvitals.view import View

MIN_ROWS = 5


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    steps, values = view.recent("sampler_ratio_mean")
    steps, values = steps[-RECENT:], values[-RECENT:]
    level, limit = centre(values), limits["mean_weight"]
    shown = f"the mean importance weight is {level:.3g} over steps {span(steps)[0]}-{span(steps)[1]}"
    if level >= limit.value:
        return Clear(f"{shown}; limit {limit}")
    evidence = [
        Evidence(
            metric="sampler_ratio_mean",
            text=f"{shown}, where unbiased weights average 1: updates are scaled down {1 / max(level, 1e-9):.3g} "
            "times; "
            f"limit {limit}",
            observed=level,
            unit="ratio",
            steps=span(steps),
            threshold=limit,
            comparison="<",
            before=1.0,
        )
    ]
    second = _per_token_fine(view, limits)
    if second is not None:
        evidence.append(second)
    trace = view.trace("sampler_ratio_mean")
    onset = lasting_onset(trace, trace.value < limit.value, int(steps[0]))
    if second is None:
        summary = f"the importance weights average {level:.3g} instead of 1; what per-token gap causes it is not logged"
        return Fired(Finding(summary, Action.WATCH, Confidence.MEDIUM, onset, tuple(evidence), "gap unknown"))
    summary = (
        f"the importance weights average {level:.3g} instead of 1 and deflate the update, though single tokens agree"
    )
    return Fired(Finding(summary, Action.ADJUST, Confidence.HIGH, onset, tuple(evidence)))


def _per_token_fine(view: View, limits: Mapping[str, Threshold]) -> Evidence | None:
    """Return the second signal: the gap of single tokens is usual, so the product over the answer is what deflates."""
    for metric in ("logprob_gap_mean", "kl_sampler_trainer", "prob_gap_mean"):
        limit = limits[metric]
        steps, values = view.recent(metric)
        steps, values = steps[-RECENT:], abs(values[-RECENT:])
        if values.size >= MIN_ROWS and centre(values) < limit.value:
            length = centre(view.recent("length_mean")[1][-RECENT:])
            over = f" over {length:.0f} tokens" if length == length else ""
            return Evidence(
                metric=metric,
                text=f"{metric} is {centre(values):.3g} per token, usual for two engines (limit {limit}); its "
                f"sum{over} "
                "is what shrinks the weight",
                observed=centre(values),
                unit=limit.unit,
                steps=span(steps),
                threshold=limit,
                comparison="<",
            )
    return None


CHECK = Check(
    id="U006",
    name="weight-deflation",
    family=Family.UPDATE,
    fault="The importance weights between sampler and trainer average far below 1 and shrink the update.",
    why="A weight that is the exponential of a sum over the whole answer falls with every token on which two engines "
    "differ by 0.02; a mask then drops what is left. Gradients become tiny and every other curve looks fine.",
    needs=Needs(all_of=("sampler_ratio_mean",), rows=MIN_ROWS),
    thresholds=(
        Threshold(
            "mean_weight",
            0.8,
            "ratio",
            SourceKind.DEFINITION,
            "unbiased weights average 1, or the kept mass (0.90 at top-p 0.9)",
        ),
        Threshold(
            "logprob_gap_mean",
            0.05,
            "nats",
            SourceKind.PAPER,
            "docs/evidence.md: Healthy bands and their sources (dense bf16: 0.005 to 0.03)",
        ),
        Threshold(
            "kl_sampler_trainer",
            0.005,
            "nats/token",
            SourceKind.PAPER,
            "docs/evidence.md: Healthy bands and their sources (usual 3e-4 to 2e-3, 1e-2 needs a look)",
        ),
        Threshold("prob_gap_mean", 0.01, "probability", SourceKind.PAPER, "verl documentation: below 0.005 is normal"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Weight single tokens (truncated at 2) instead of whole answers", "importance_level", "set"),
                Remedy("Or take the mean of the log-ratios over the answer in place of their sum", "", "check"),
            ),
            verify=(Verify("the mean importance weight is above 0.9", "sampler_ratio_mean", ">", 0.9, 20),),
        ),
        "gap unknown": Plan(
            remedies=(
                Remedy("Log the mean absolute log-probability gap per token between sampler and trainer", "", "check"),
            ),
            verify=(Verify("the mean importance weight is above 0.9", "sampler_ratio_mean", ">", 0.9, 20),),
        ),
    },
    leads_to=("U008", "R010"),
    look_alikes=(
        LookAlike("Top-p 0.9 at the sampler: the mean weight is the kept mass", "0.90 and not lower"),
        LookAlike("Stale weights", "the gap of single tokens is large too: the sync checks"),
    ),
    patience=2,
    sources=(
        "docs/evidence.md: What no curve shows",
        "NeMo-RL PR#2269",
        "trl#5814",
        "docs/measurements.md: Sampler identities",
    ),
)
