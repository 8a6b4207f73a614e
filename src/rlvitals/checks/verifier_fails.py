"""R032: the verifier raises, hangs or gives no number."""

from __future__ import annotations

from collections.abc import Mapping

from rlvitals.auditresults import UNKNOWN, AuditKind, Probe, ProbeFault, Rewards, newest
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
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.audit_common import evidence, from_start, percent
from rlvitals.view import View

RARE = frozenset({"hostile", "very long", "no gold answer"})  # inputs that a policy may never write


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    probes, recorded = newest(view.audits, Probe), newest(view.audits, Rewards)
    if not probes and not recorded:
        return NoData(("audit:probe",), UNKNOWN[AuditKind.PROBE])
    limit = limits["failed"]
    shown: list[Evidence] = []
    ordinary = hung = False
    for p in probes:
        for f in p.findings:
            if f.fault in (ProbeFault.RAISES, ProbeFault.HANGS):
                shown.append(evidence(view, p, f"{f.fault}: {f.text}", f.shown.value, "of calls", limit))
                hung = hung or f.fault is ProbeFault.HANGS
        ordinary = ordinary or any(c.errors or c.timeouts for c in p.classes if c.name not in RARE)
    for r in recorded:
        if r.errors.count:
            text = f"{r.errors.count} of {r.errors.of} trajectories raised in training ({', '.join(r.error_types[:3])})"
            shown.append(evidence(view, r, text, r.errors.value, "of trajectories", limit))
            ordinary = True
    if not shown:
        calls = sum(c.calls for p in probes for c in p.classes) + sum(r.trajectories for r in recorded)
        return Clear(f"none of {calls} calls raised, hung or gave no number")
    where = "ordinary completions" if ordinary else "hostile or very long completions only"
    return Fired(
        Finding(
            f"The verifier {'hangs' if hung else 'fails'} on {where}: {percent(shown[0].observed)} of the calls",
            Action.FIX if ordinary or hung else Action.WATCH,
            Confidence.HIGH if ordinary else Confidence.MEDIUM,
            from_start(view),
            tuple(shown),
        )
    )


CHECK = Check(
    id="R032",
    name="verifier-fails",
    family=Family.REWARD,
    fault="The verifier raises, does not answer in time or returns no number on some completions.",
    why="What a trainer makes of a failing verifier differs: a crash, a lost batch, a reward of 0 that trains "
    "the policy "
    "away from what it wrote. A policy writes such completions sooner or later.",
    needs=Needs(),
    thresholds=(
        Threshold("failed", 0.0, "of calls", SourceKind.DEFINITION, "a verifier error is an error, never a reward"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Give the verifier a time limit and a process of its own; bound what it parses", "verifier", ""),
                Remedy("Count errors and time-outs by type, and leave such rollouts out of their group", "", ""),
            ),
            verify=(Verify("no verifier error in the log", "verifier_error_frac", "==", 0.0, 20),),
        )
    },
    leads_to=("R011", "R001", "R006", "R013", "R014", "S001"),
    look_alikes=(
        LookAlike("errors on hostile input alone", "a finding to watch, unless the verifier hangs"),
        LookAlike("a reward of None", "abstaining is allowed where the trainer knows it, and counted apart"),
    ),
    sources=("Why GRPO training fails: reward extraction", "verl PR#5635", "NeMo-RL PR#2207"),
)
