"""R031: the verifier, given known answers, pays wrong ones or does not pay right ones."""

from __future__ import annotations

from collections.abc import Mapping

from rlvitals.auditresults import AuditKind, Probe, ProbeFault, ProbeFinding, newest
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
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.audit_common import evidence, from_start
from rlvitals.view import View

WORST_FIRST = (
    ProbeFault.ALWAYS_ZERO,
    ProbeFault.ALWAYS_ONE,
    ProbeFault.CONSTANT,
    ProbeFault.MISSES_GOLD,
    ProbeFault.PAYS_WRONG,
    ProbeFault.DEFAULT_ON_ERROR,
    ProbeFault.DISAGREES_WITH_LOG,
)


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    records = newest(view.audits, Probe)
    found = [(p, f) for p in records for f in p.findings if f.fault in WORST_FIRST]
    if not found:
        asked = sum(c.calls for p in records for c in p.classes)
        return Clear(f"{asked} known answers were judged as they should be, by {len(records)} reward function(s)")
    found.sort(key=lambda pair: WORST_FIRST.index(pair[1].fault))
    worst = found[0][1]
    limit = limits["misjudged"]
    return Fired(
        Finding(
            f"The verifier misjudges known answers ({worst.fault}): {worst.text}",
            Action.FIX if any(_certain(f) for _, f in found) else Action.WATCH,
            Confidence.HIGH,
            from_start(view),
            tuple(evidence(view, p, f"{f.fault}: {f.text}", f.shown.value, "of calls", limit) for p, f in found),
            "default" if worst.fault is ProbeFault.DEFAULT_ON_ERROR else "",
        )
    )


def _certain(found: ProbeFinding) -> bool:
    """A floor for tasks without an answer, or another log, is to be looked at; the rest is a broken reward."""
    if found.fault is ProbeFault.DEFAULT_ON_ERROR:
        return not found.zero
    return found.fault is not ProbeFault.DISAGREES_WITH_LOG


_VERIFIED = Verify("rlvitals audit probe finds nothing any more")

CHECK = Check(
    id="R031",
    name="verifier-misjudges",
    family=Family.REWARD,
    fault="Given answers that are known to be right or wrong, the verifier pays wrong ones or does not pay right ones.",
    why="The most common failure of all is that the reward is not the one that was defined: a parser that returns zero "
    "on another format, a default that pays what it cannot read. The loop runs green and trains on noise.",
    needs=Needs(audit=AuditKind.PROBE),
    thresholds=(
        Threshold(
            "misjudged", 0.0, "of calls", SourceKind.DEFINITION, "gold answers are right, wrong and empty ones are not"
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Repair the verifier on the inputs named, and probe it again in the worker process", "verifier", ""
                ),
                Remedy(
                    "Score the logged rollouts anew with the repaired verifier before trusting any curve", "", "check"
                ),
            ),
            verify=(_VERIFIED,),
            rollback=Rollback.BEFORE_ONSET,
        ),
        "default": Plan(
            remedies=(
                Remedy("Make verifier errors errors: no reward, counted by type, never a number", "verifier", ""),
            ),
            verify=(_VERIFIED,),
        ),
    },
    leads_to=(
        "T001",
        "T003",
        "T004",
        "R001",
        "R004",
        "R005",
        "R006",
        "R007",
        "R009",
        "R010",
        "R012",
        "R014",
        "R015",
        "S001",
        "R034",
    ),
    look_alikes=(
        LookAlike("a format reward paid to wrong answers", "only more than half of full marks counts as paid"),
        LookAlike("another spelling of the answer is not accepted", "shown by the probe, not counted as a fault"),
    ),
    sources=("Why GRPO training fails: reward extraction", "open-r1#159", "ms-swift#3130", "verl PR#5635"),
)
