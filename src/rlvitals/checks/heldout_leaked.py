"""H004: held-out items are in the training data."""

from __future__ import annotations

from collections.abc import Mapping

from rlvitals.auditresults import AuditKind, Leakage, newest
from rlvitals.check import (
    Action,
    Check,
    Clear,
    Confidence,
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
from rlvitals.checks.audit_common import evidence, from_start, percent
from rlvitals.view import View


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    records = newest(view.audits, Leakage)
    worst = max(records, key=lambda r: (len(r.shared_families), r.leaked.count))
    limit = limits["leaked"]
    if not worst.leaked.count and not worst.shared_families:
        return Clear(
            f"none of {worst.held_out} held-out items is among {worst.training} training items (exact, "
            "normalised, n-gram, "
            f"near-duplicate; at most {percent(worst.leaked.high)}); a reworded copy would not be seen"
        )
    ways = ", ".join(f"{o.path} {o.how} {o.held_out.count}" for o in worst.overlaps) or "none by text"
    families = f"; families meant to be held out and trained on: {', '.join(worst.shared_families)}"
    text = f"{worst.leaked.count} of {worst.held_out} held-out items are in the training data ({ways})"
    text += families if worst.shared_families else ""
    return Fired(
        Finding(
            f"Held-out data has leaked into training: {percent(worst.leaked.value)} of its items"
            + (f", and {len(worst.shared_families)} whole families" if worst.shared_families else ""),
            Action.FIX,
            Confidence.HIGH,
            from_start(view),
            (evidence(view, worst, text, worst.leaked.value, "of held-out items", limit),),
        )
    )


CHECK = Check(
    id="H004",
    name="held-out-leaked",
    family=Family.HELD_OUT,
    fault="Items of the held-out set, or whole families meant to be held out, are in the training data.",
    why="A held-out score on items that were trained on measures memory. Checkpoints chosen by it are chosen by the "
    "training reward under another name.",
    needs=Needs(audit=AuditKind.LEAKAGE),
    thresholds=(
        Threshold("leaked", 0.0, "of held-out items", SourceKind.DEFINITION, "held out means in no training path"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Take the items named out of the held-out set, or train again without them", "held-out set", "check"
                ),
                Remedy("Choose checkpoints anew on the clean held-out set", "", ""),
            ),
            verify=(Verify("rlvitals audit leakage finds nothing any more"),),
        )
    },
    leads_to=(),
    look_alikes=(
        LookAlike(
            "tasks of one template with other numbers", "counted apart: the same words with other numbers are no leak"
        ),
        LookAlike("short answers that many items share", "an answer alone is no leak: prompts are compared"),
    ),
    sources=("Why GRPO training fails: leakage", "docs/measurements.md: Leakage on a planted set", "verl-tool#149"),
)
