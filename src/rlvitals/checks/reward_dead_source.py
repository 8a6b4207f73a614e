"""R006: one data source never earns anything while the others do."""

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
    Onset,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt, now
from rlvitals.view import View

FAMILY = "reward_family/"
ROWS = 20  # logged steps over which sources are compared


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    rows = limits["rows"]
    names = [n for n in view.family(FAMILY) if view.count(n) >= rows.value]
    if len(names) < 2:
        return NotApplicable(f"{len(names)} source has {rows.value:.0f} logged steps; two are needed to compare")
    alive = [n for n in names if now(view, n, ROWS).high > now(view, n, ROWS).low]
    lowest = min(now(view, n, ROWS).mean for n in names)
    dead = []
    for name in names:
        steps, values = view.recent(name)
        since = view.frozen_since(name)
        streak = int((steps >= since).sum())
        if name not in alive and streak >= rows.value and float(values[-1]) <= lowest:
            dead.append((name, float(values[-1]), since, streak))
    others = [n for n in alive if now(view, n, ROWS).mean > lowest]
    if not dead or not others:
        least = min(names, key=lambda n: now(view, n, ROWS).mean)
        return Clear(
            f"every one of the {len(names)} sources varies; the lowest is {least} at {fmt(now(view, least, ROWS).mean)}"
        )
    name, value, since, streak = dead[0]
    label, best = name[len(FAMILY) :], max(others, key=lambda n: now(view, n, ROWS).mean)
    later = since > view.first_seen(name)
    more = f" (and {len(dead) - 1} more)" if len(dead) > 1 else ""
    return Fired(
        Finding(
            f"Source {label}{more} earns exactly {fmt(value)} in every rollout while others earn more: a dead "
            f"verifier, or "
            "tasks out of reach",
            Action.FIX,
            Confidence.HIGH if later else Confidence.MEDIUM,
            Onset(since, since),
            (
                Evidence(
                    name,
                    f"{name} is exactly {fmt(value)} in all {streak} logged steps since step {since} (limit {rows})",
                    float(streak),
                    "logged steps",
                    (since, view.step),
                    rows,
                    ">=",
                ),
                Evidence(
                    best,
                    f"{best} is {fmt(now(view, best, ROWS).mean)} over its last {now(view, best, ROWS).n} logged steps",
                    now(view, best, ROWS).mean,
                    "reward",
                    now(view, best, ROWS).steps,
                ),
            ),
            "later" if later else "",
        )
    )


CHECK = Check(
    id="R006",
    name="dead-source",
    family=Family.REWARD,
    fault="One data source is stuck at its lowest reward while the other sources move.",
    why="A scorer that fails for one kind of answer, in one process or with one library missing, returns zero for a "
    "whole source; the mean over all sources hides it and the policy unlearns those tasks.",
    needs=Needs(any_of=(FAMILY,), rows=10),
    thresholds=(
        Threshold(
            "rows",
            20,
            "identical logged steps",
            SourceKind.MEASURED,
            "docs/measurements.md: identical streaks",
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Score that source's gold answers in the worker process: they must get full marks",
                    "verifier",
                    "check",
                ),
                Remedy(
                    "Count exceptions of its scorer by type; treat errors as errors, never as zero", "verifier", "set"
                ),
                Remedy(
                    "If the scorer is right, the source is too hard: lower its share or its tier", "curriculum", "lower"
                ),
            ),
            verify=(Verify("the source earns something within 30 steps", "", "", None, 30),),
        ),
        "later": Plan(
            remedies=(
                Remedy("Find what changed in that source's scorer at the onset", "verifier", "check"),
                Remedy("Resume from a checkpoint before it, once the scorer is repaired", "", ""),
            ),
            verify=(Verify("the source earns something within 30 steps", "", "", None, 30),),
            rollback=Rollback.BEFORE_ONSET,
        ),
    },
    leads_to=("R021", "S001", "R010", "R012", "R014"),
    look_alikes=(
        LookAlike("a hard source that succeeds now and then", "its reward is not the same in 20 logged steps"),
        LookAlike("all sources at their floor", "T001 or R001: nothing tells one source from the others"),
    ),
    sources=("docs/evidence.md: What no curve shows", "verl PR#5635"),
)
