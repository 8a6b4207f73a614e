"""R034: a person who scored trajectories disagrees with the pipeline."""

from __future__ import annotations

from collections.abc import Mapping

from rlvitals.auditresults import AuditKind, Score, newest
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
    NoData,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.audit_common import evidence, from_start, percent
from rlvitals.view import View

MIN_SCORED = 10  # trajectories; below, agreement says little: the interval reaches beyond 30%
SURE = 2  # disagreements: one may be a slip of the person


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    records = newest(view.audits, Score)
    worst = max(records, key=lambda r: r.wrong.count)
    limit = limits["disagreements"]
    text = (
        f"{worst.wrong.count} of {worst.wrong.of} trajectories are scored wrongly (95%: {percent(worst.wrong.low)} to "
        f"{percent(worst.wrong.high)}): {worst.false_positive.count} of {worst.false_positive.of} wrong ones are paid, "
        f"{worst.false_negative.count} of {worst.false_negative.of} right ones are not; kappa {worst.kappa:.2f}"
    )
    if worst.wrong.count <= limit.value:
        if worst.wrong.of < MIN_SCORED:
            return NoData(("audit:score",), f"{worst.wrong.of} trajectories scored by hand; {MIN_SCORED} are needed")
        return Clear(f"a person agrees on all {worst.wrong.of} (error rate at most {percent(worst.wrong.high)})")
    paid = worst.false_positive.count > worst.false_negative.count
    return Fired(
        Finding(
            f"The reward is not what it should be: a person disagrees on {worst.wrong.count} of "
            f"{worst.wrong.of} trajectories",
            Action.FIX if worst.wrong.count >= SURE else Action.WATCH,
            Confidence.HIGH if worst.wrong.count >= SURE else Confidence.LOW,
            from_start(view),
            (evidence(view, worst, text, worst.wrong.count, "trajectories", limit),),
            "paid" if paid else "",
        )
    )


CHECK = Check(
    id="R034",
    name="hand-scores-disagree",
    family=Family.REWARD,
    fault="Scored by hand, one by one, trajectories have other scores than the pipeline gave them.",
    why="Second question of the triage in 'Why GRPO training fails': where hand scores and rewards differ, "
    "extraction or "
    "the verifier's defaults are repaired before anything else is looked at.",
    needs=Needs(audit=AuditKind.SCORE),
    thresholds=(
        Threshold(
            "disagreements",
            0,
            "trajectories",
            SourceKind.DEFINITION,
            "the reward is what a person says that it should be",
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Read the trajectories named: repair the answer extraction or the default behind them",
                    "verifier",
                    "",
                ),
                Remedy("Probe the verifier on them: rlvitals audit probe", "", "check"),
            ),
            verify=(Verify("a fresh draw scored by hand agrees"),),
            rollback=Rollback.BEFORE_ONSET,
        ),
        "paid": Plan(
            remedies=(
                Remedy("Harden the verifier: the trajectories named earn a reward without being right", "verifier", ""),
                Remedy("Probe the verifier on them: rlvitals audit probe", "", "check"),
            ),
            verify=(Verify("a fresh draw scored by hand agrees"),),
            rollback=Rollback.BEFORE_ONSET,
        ),
    },
    leads_to=("T001", "T003", "R001", "R003", "R004", "R005", "R006", "R007", "R009", "R010", "R014", "S001", "H001"),
    look_alikes=(LookAlike("one disagreement in a score", "a slip of the person is possible: a finding to watch"),),
    sources=("Why GRPO training fails: reward extraction",),
)
