"""T003: the base policy's own rollouts say that these tasks teach it nothing."""

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


def tied_at(found: Preflight) -> float:
    """Return the expected share of tied groups at the planned group size, 1.0 where it was not computed."""
    return next((z.value for z in found.zero_variance if z.k == found.group_size), 1.0)


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    records = newest(view.audits, Preflight)
    bad = next((r for r in records if r.verdict in (Learnable.EASIER, Learnable.UNMIXED)), None)
    if bad is None:
        best = records[0]
        shown = (
            f"the base policy solves {percent(best.success)} (95%: {percent(best.low)} to {percent(best.high)}) of "
            f"{best.rollouts} rollouts on {best.tasks} tasks"
        )
        if best.verdict is Learnable.UNSURE:
            return NoData(("audit:preflight",), f"{shown}; {best.needed} more tasks make the verdict sure")
        return Clear(f"{shown}; {percent(1 - tied_at(best))} of groups of {best.group_size} are expected to be mixed")
    mixed = 1 - tied_at(bad)
    text = (
        f"{percent(bad.success)} of {bad.rollouts} rollouts on {bad.tasks} tasks succeed (95%: {percent(bad.low)} to "
        f"{percent(bad.high)}), so {percent(mixed)} of groups of {bad.group_size} are expected to carry a signal"
    )
    start = f"; tier {bad.start_with} is the one to start with" if bad.start_with else ""
    unmixed = bad.verdict is Learnable.UNMIXED
    what = "The base policy always solves some tasks and never the others" if unmixed else (
        "The base policy can hardly solve these tasks"
    )  # fmt: skip
    return Fired(
        Finding(
            f"{what}: {percent(mixed)} of groups of {bad.group_size} would carry a signal{start}",
            Action.FIX,
            Confidence.HIGH,
            from_start(view),
            (evidence(view, bad, text, mixed, "of groups", limits["mixed_groups"], "<"),),
            "unmixed" if unmixed else "",
        )
    )


CHECK = Check(
    id="T003",
    name="tasks-beyond-policy",
    family=Family.TASK,
    fault="Sampled before training, the base policy hardly ever solves these tasks, or its groups are never mixed.",
    why="The group-relative advantage needs successes to point at and failures beside them. Where the base "
    "policy gives "
    "neither, more steps change nothing; an easier tier or a supervised warm start does (triage of 'Why GRPO training "
    "fails', first question).",
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
                Remedy(
                    "Start on the easier tier that preflight names, or warm-start with supervised examples",
                    "curriculum",
                    "lower",
                ),
                Remedy(
                    "Check with a scripted or human solver that the tasks can be solved through this interface",
                    "",
                    "check",
                ),
            ),
            verify=(Verify("less than half of the groups are tied", "zero_variance_frac", "<", 0.5, 20),),
        ),
        "unmixed": Plan(
            remedies=(
                Remedy("Change the mixture: take out tasks that are always or never solved", "curriculum", ""),
                Remedy(
                    "Raise sampling diversity if the completions of a group are nearly the same", "temperature", "raise"
                ),
            ),
            verify=(Verify("less than half of the groups are tied", "zero_variance_frac", "<", 0.5, 20),),
        ),
    },
    leads_to=("T001", "R001", "R010", "R013", "S001", "S005", "U007", "U008", "K002"),
    look_alikes=(
        LookAlike("a verifier that pays nothing", "R031: gold answers get no marks either"),
        LookAlike("few samples without a success", "the interval takes tasks as its units and reaches up to the limit"),
    ),
    sources=("Why GRPO training fails: first question", "2509.21880"),
)
