"""T005: tasks that a competent solver cannot solve through the interface that the model uses."""

from __future__ import annotations

from collections.abc import Mapping

from rlvitals.auditresults import AuditKind, Preflight, newest
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
    NotApplicable,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
)
from rlvitals.checks.audit_common import evidence, from_start
from rlvitals.view import View

NAMED = 5  # tasks named in the finding


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    tried = [r for r in newest(view.audits, Preflight) if r.solver_tried]
    if not tried:
        return NotApplicable("no solver has tried the tasks: rlvitals preflight --solver module:function or human")
    worst = max(tried, key=lambda r: len(r.unsolved) / r.solver_tried)
    if not worst.unsolved:
        return Clear(f"{worst.solver} solves all {worst.solver_tried} tasks that it tried, through the environment")
    shown = f"{len(worst.unsolved)} of {worst.solver_tried} tasks are not solved by {worst.solver}"
    named = ", ".join(worst.unsolved[:NAMED]) + (" ..." if len(worst.unsolved) > NAMED else "")
    share = len(worst.unsolved) / worst.solver_tried
    every = len(worst.unsolved) == worst.solver_tried
    return Fired(
        Finding(
            f"Tasks that no one can solve through their own tools: {shown}",
            Action.FIX if every else Action.ADJUST,
            Confidence.MEDIUM,
            from_start(view),
            (evidence(view, worst, f"{shown}: {named}", share, "of tasks", limits["unsolved"]),),
        )
    )


CHECK = Check(
    id="T005",
    name="unsolvable-tasks",
    family=Family.TASK,
    fault="A scripted or human solver, playing through the environment that the model uses, cannot solve some tasks.",
    why="Environments ship with tasks that are impossible through their own tools. No policy can learn them; they fill "
    "groups with failures and hide what is learned elsewhere.",
    needs=Needs(audit=AuditKind.PREFLIGHT),
    thresholds=(
        Threshold("unsolved", 0.0, "of tasks", SourceKind.DEFINITION, "a task that is posed can be solved by someone"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Look at the tasks named: repair the environment or leave them out", "curriculum", "check"),
            ),
            verify=(),
        )
    },
    leads_to=("T003", "T001", "R001", "R006", "R010", "S001"),
    look_alikes=(LookAlike("a solver that is itself too weak", "a person tries the tasks named: --solver human"),),
    sources=("Why GRPO training fails: first question",),
)
