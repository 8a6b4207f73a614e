"""O032: crashes recorded as failures, hangs recorded as truncations."""

from __future__ import annotations

from collections.abc import Mapping

from rlvitals.auditresults import AuditKind, Replay, ReplayFault, newest
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
)
from rlvitals.checks.audit_common import evidence, from_start
from rlvitals.view import View

FAULTS = (ReplayFault.CRASH_AS_FAILURE, ReplayFault.HANG_AS_TRUNCATION)


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    records = newest(view.audits, Replay)
    found = [(r, f) for r in records for f in r.findings if f.fault in FAULTS]
    if not found:
        return Clear(f"none of {sum(r.replayed for r in records)} replayed episodes hides a crash or a hang")
    limit = limits["mislabelled"]
    return Fired(
        Finding(
            f"Episodes ended for another reason than recorded: {found[0][1].text}",
            Action.FIX,
            Confidence.HIGH,
            from_start(view),
            tuple(
                evidence(
                    view, r, f"{f.fault}: {f.text} ({'; '.join(f.episodes[:3])})", f.shown.value, "of episodes", limit
                )
                for r, f in found
            ),
        )
    )


CHECK = Check(
    id="O032",
    name="endings-mislabelled",
    family=Family.ROLLOUT,
    fault="An episode that crashed is recorded as a failure of the policy, or one that hung as a truncation.",
    why="Episodes that end for the wrong reason poison credit assignment: the policy is punished for what the "
    "environment did. Aggregate reward cannot tell the two apart.",
    needs=Needs(audit=AuditKind.REPLAY),
    thresholds=(
        Threshold(
            "mislabelled", 0.0, "of episodes", SourceKind.DEFINITION, "a crash is no failure and a hang no truncation"
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Record crashes and hangs as what they are, without a reward, and leave them out of their group",
                    "",
                    "",
                ),
                Remedy("Repair the environment on the episodes named", "", "check"),
            ),
            verify=(),
        )
    },
    leads_to=("O003", "L001", "R014", "R010"),
    look_alikes=(
        LookAlike("an honest failure of the policy", "the replay runs to its end and gives the logged reward"),
    ),
    sources=("Why GRPO training fails: environment termination",),
)
