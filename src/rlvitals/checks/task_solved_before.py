"""T004: the base policy solves the tasks already."""

from __future__ import annotations

from collections.abc import Mapping

from rlvitals.auditresults import AuditKind, Learnable, Preflight, newest
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
from rlvitals.checks.task_not_learnable import tied_at
from rlvitals.view import View


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    records = newest(view.audits, Preflight)
    solved = next((r for r in records if r.verdict is Learnable.SOLVED), None)
    if solved is None:
        best = records[0]
        return Clear(f"the base policy solves {percent(best.success)} of its rollouts (at most {percent(best.high)})")
    mixed = 1 - tied_at(solved)
    text = (
        f"{percent(solved.success)} of {solved.rollouts} rollouts on {solved.tasks} tasks succeed before training (at "
        f"least {percent(solved.low)}); {percent(mixed)} of groups of {solved.group_size} are expected to be mixed"
    )
    return Fired(
        Finding(
            f"The tasks were solved before training: {percent(solved.success)} of the base policy's rollouts succeed",
            Action.FINISH,
            Confidence.HIGH,
            from_start(view),
            (evidence(view, solved, text, mixed, "of groups", limits["mixed_groups"], "<"),),
        )
    )


CHECK = Check(
    id="T004",
    name="solved-before-training",
    family=Family.TASK,
    fault="Sampled before training, the base policy solves nearly every task: there is nothing to learn here.",
    why="Groups in which every rollout succeeds have no advantage, and a reward near its maximum leaves room for "
    "exploitation only. A verifier that pays everything looks the same: audit it first.",
    needs=Needs(audit=AuditKind.PREFLIGHT),
    thresholds=(
        Threshold(
            "mixed_groups",
            0.25,
            "of groups",
            SourceKind.DEFINITION,
            "a tied group has zero advantage; below a quarter mixed three of four groups teach nothing",
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Give wrong and empty answers to the verifier: they must earn nothing", "verifier", "check"),
                Remedy("Take a harder tier, or leave out the tasks that are always solved", "curriculum", "raise"),
            ),
            verify=(Verify("less than half of the groups are all right", "all_right_frac", "<", 0.5, 20),),
        )
    },
    leads_to=("R007", "R009", "S001", "T002", "R010"),
    look_alikes=(LookAlike("a verifier that pays everything", "R031: wrong answers are paid too"),),
    sources=("Why GRPO training fails: sparse and saturated rewards", "ms-swift#3130"),
)
