"""R033: the verifier scores the same completion differently."""

from __future__ import annotations

from collections.abc import Mapping

from rlvitals.auditresults import AuditKind, Probe, ProbeFault, newest
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

UNSTABLE = (ProbeFault.NON_DETERMINISTIC, ProbeFault.ORDER_DEPENDENT)


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    records = newest(view.audits, Probe)
    found = [(p, f) for p in records for f in p.findings if f.fault in UNSTABLE]
    if not found:
        return Clear("the same inputs got the same rewards again, in a fresh process and in the other order")
    worst = found[0][1]
    limit = limits["changed"]
    return Fired(
        Finding(
            f"The verifier is {worst.fault}: {worst.text}",
            Action.ADJUST,
            Confidence.MEDIUM,
            from_start(view),
            tuple(evidence(view, p, f.text, f.shown.value, "of inputs", limit) for p, f in found),
            "order" if worst.fault is ProbeFault.ORDER_DEPENDENT else "",
        )
    )


CHECK = Check(
    id="R033",
    name="verifier-unstable",
    family=Family.REWARD,
    fault="The verifier gives the same completion different rewards: at random, or by what stands beside it.",
    why="Inside a group every reward difference becomes an advantage. Noise of the verifier breaks ties, so "
    "that groups "
    "without any difference in quality push the policy in random directions, and the zero-variance share looks "
    "healthy.",
    needs=Needs(audit=AuditKind.PROBE),
    thresholds=(Threshold("changed", 0.0, "of inputs", SourceKind.DEFINITION, "one completion has one reward"),),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Fix the verifier's seed and temperature, or average several scores of one completion",
                    "verifier",
                    "",
                ),
            ),
            verify=(),
        ),
        "order": Plan(
            remedies=(Remedy("Score every completion on its own; keep no state between calls", "verifier", ""),),
            verify=(),
        ),
    },
    leads_to=("R010", "S003", "R034"),
    look_alikes=(
        LookAlike(
            "a judge model that is noisy on purpose", "rewards differ at random: average them, or lower its temperature"
        ),
        LookAlike(
            "a reward that ranks the completions of a group",
            "order-dependent by design: switch the check off with the reason",
        ),
    ),
    sources=("docs/false-alarms.md: 17", "Why GRPO training fails: reward extraction"),
)
