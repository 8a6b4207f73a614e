"""D006: a series is a constant zero because it is not measured."""

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
    Onset,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.metrics import METRICS
from rlvitals.view import View

CANDIDATES = tuple(m.name for m in METRICS if m.zero_may_mean_unmeasured)
MIN_VALUES = 20
MEANING = {
    "kl_ref": "no reference model is used",
    "kl_loss": "no KL term is in the loss",
    "entropy": "it is not measured: a sampling policy has entropy above 0",
    "clip_frac": "nothing was clipped, which is exact with one update per rollout batch",
    "clip_low_frac": "nothing was clipped below, which is exact with one update per rollout batch",
    "clip_high_frac": "nothing was clipped above, which is exact with one update per rollout batch",
}


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    found = [m for m in CANDIDATES if view.placeholder(m) and view.count(m, raw=True) >= MIN_VALUES]
    if not found:
        return Clear("no series that trainers fill with zeros is zero throughout")
    evidence = tuple(
        Evidence(
            metric=metric,
            text=f"{metric} is exactly 0 in all of its {view.count(metric, raw=True)} values: "
            + MEANING.get(metric, "it is not measured"),
            observed=0.0,
            unit="values other than 0",
            steps=(view.first_seen(metric), view.last_seen(metric)),
            threshold=limits["nonzero_values"],
            comparison="==",
        )
        for metric in found
    )
    first = min(view.first_seen(m) for m in found)
    summary = f"{', '.join(found)}: a constant 0 throughout, not read as a measurement"
    return Fired(Finding(summary, Action.NOTE, Confidence.MEDIUM, Onset(first, first), evidence))


CHECK = Check(
    id="D006",
    name="constant-placeholder",
    family=Family.DATA,
    fault="A series is a constant zero, written for something that is not measured.",
    why="Some trainers write 0 for the KL without a reference, or for an entropy that is switched off. Taken as a "
    "measurement it reads as a collapsed policy or a perfect leash; it is neither.",
    needs=Needs(),
    thresholds=(
        Threshold("nonzero_values", 0, "values other than 0", SourceKind.DEFINITION, "a measured series varies"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(Remedy("Switch the measurement on if you want it judged; else nothing to do"),),
            verify=(Verify("the series takes values other than 0"),),
        ),
    },
    look_alikes=(
        LookAlike(
            "The KL is configured and still exactly 0 after several updates",
            "the KL coefficient is above 0: no-movement",
        ),
        LookAlike("Clipping is switched off by mistake", "several updates per rollout batch: clipping-off"),
    ),
    sources=("docs/false-alarms.md: 4", "docs/false-alarms.md: 9", "docs/evidence.md: Version and unit traps"),
)
