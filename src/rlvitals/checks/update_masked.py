"""U009: most completions are truncated and left out of the loss."""

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
from rlvitals.checks.common import RECENT
from rlvitals.checks.signal_common import lasting_onset, span
from rlvitals.view import View

MIN_ROWS = 10


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    if not view.config.masks_truncated:
        return NotApplicable("truncated completions are trained on")
    steps, values = view.recent("truncated_frac")
    steps, values = steps[-RECENT:], values[-RECENT:]
    share = float(values.mean())
    half, most = limits["masked_share"], limits["masked_most"]
    shown = f"{share:.0%} of the completions were truncated and masked over steps {span(steps)[0]}-{span(steps)[1]}"
    if share <= half.value:
        return Clear(f"{shown}; limit {half}")
    limit = most if share > most.value else half
    evidence = Evidence(
        metric="truncated_frac",
        text=f"{shown}: {1 - share:.0%} of the batch is left to train on; limit {limit}",
        observed=share,
        unit="fraction",
        steps=span(steps),
        threshold=limit,
        comparison=">",
    )
    trace = view.trace("truncated_frac")
    onset = lasting_onset(trace, trace.value > half.value, int(steps[0]))
    action, confidence = (Action.ADJUST, Confidence.HIGH) if share > most.value else (Action.WATCH, Confidence.MEDIUM)
    summary = f"{share:.0%} of the completions are truncated and masked: {1 - share:.0%} of the batch is trained on"
    return Fired(Finding(summary, action, confidence, onset, (evidence,)))


CHECK = Check(
    id="U009",
    name="most-completions-masked",
    family=Family.UPDATE,
    fault="Most completions are truncated and left out of the loss.",
    why="Masking truncated completions keeps the cap from teaching short answers. When nearly all are cut, nearly "
    "nothing "
    "is trained: the loss is then the KL term alone and the policy drifts or stands still, at full cost of the "
    "rollouts.",
    needs=Needs(all_of=("truncated_frac",), config=("masks_truncated",), rows=MIN_ROWS),
    thresholds=(
        Threshold(
            "masked_share", 0.5, "fraction", SourceKind.CONVENTION, "half of the rollouts are paid for and not used"
        ),
        Threshold("masked_most", 0.9, "fraction", SourceKind.DEFINITION, "a masked completion has no gradient"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Raise the token budget until few completions are cut", "token_budget", "raise"),
                Remedy("Check that the stop token is the one the model emits", "", "check"),
            ),
            verify=(Verify("fewer than 10% of the completions are truncated", "truncated_frac", "<", 0.1, 20),),
        ),
    },
    leads_to=("U001", "U007", "U008", "R010"),
    look_alikes=(
        LookAlike("Truncated completions that are trained on", "the configuration: masking is off"),
        LookAlike("A few per cent truncated", "limit 0.5"),
    ),
    patience=2,
    sources=("docs/false-alarms.md: 27", "DAPO 2503.14476: overlong filtering"),
)
