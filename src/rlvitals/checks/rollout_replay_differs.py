"""O031: episodes replayed from their seeds come out differently."""

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

FAULTS = (ReplayFault.NON_DETERMINISTIC, ReplayFault.NOT_REPRODUCED)


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    records = newest(view.audits, Replay)
    found = [(r, f) for r in records for f in r.findings if f.fault in FAULTS]
    if not found:
        return Clear(
            f"{sum(r.same for r in records)} of {sum(r.replayed for r in records)} replayed episodes come out as logged"
        )
    sure = any(f.fault is ReplayFault.NON_DETERMINISTIC for _, f in found)
    limit = limits["differing"]
    return Fired(
        Finding(
            f"Episodes do not replay from their seeds: {found[0][1].text}",
            Action.FIX if sure else Action.WATCH,
            Confidence.HIGH if sure else Confidence.MEDIUM,
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
    id="O031",
    name="replay-differs",
    family=Family.ROLLOUT,
    fault="The same actions from the same seed end in another reward, ending or observation.",
    why="If replay does not reproduce an episode, the environment feeds noise into the reward: the same behaviour is "
    "praised and blamed by chance, and no finding about a single rollout can be trusted.",
    needs=Needs(audit=AuditKind.REPLAY),
    thresholds=(
        Threshold(
            "differing", 0.0, "of episodes", SourceKind.DEFINITION, "reset with one item and seed starts one trajectory"
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Find what the episode depends on beside its seed: clock, network, order, global state", "", "check"
                ),
                Remedy("Reset every part of the environment between episodes", "", ""),
            ),
            verify=(),
        )
    },
    leads_to=("R010", "O003"),
    look_alikes=(
        LookAlike("an environment that changed since", "two replays agree with each other: not reproduced, to watch"),
    ),
    sources=("Why GRPO training fails: environment termination",),
)
