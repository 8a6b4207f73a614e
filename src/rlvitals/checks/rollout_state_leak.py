"""O006: the order of the rollouts within their group decides their reward: resets leak state."""

from __future__ import annotations

from collections.abc import Mapping

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
    Onset,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt, onset_of
from rlvitals.checks.rollout_common import ROWS, recent, speaks
from rlvitals.view import View

REWARD, LENGTH = "rollouts/index_reward_corr", "rollouts/index_length_corr"
WINDOWS = (ROWS, 60)  # recent values: a new leak shows in few steps, a small one in many


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    now = max((recent(view, REWARD, k) for k in WINDOWS), key=lambda x: abs(x.sure()))
    length = recent(view, LENGTH, now.n)
    z, limit, sure = now.sure(), limits["correlation"], limits["z"]
    seen = f"reward and number within the group have correlation {now.mean:+.3f} ({z:+.1f} standard errors)"
    if abs(now.mean) < limit.value or abs(z) < sure.value:
        return Clear(f"{seen}; limit {limit} and {sure}")
    order = limits["sorted"]
    if abs(now.mean) > order.value:
        return Clear(f"{seen}: the dump is sorted by reward")
    if length.n and abs(length.mean) > abs(now.mean):
        return Clear(f"{seen}, length {length.mean:+.3f}: the dump is in order of finishing or of length")
    first = speaks(now, seen, limit, ">=", observed=abs(now.mean), before=0.0)
    way = "later ones earn less: something grows harder or fills up" if now.mean < 0 else "later ones earn more"
    onset = onset_of(view, REWARD, *((limit.value, 1.0) if now.mean > 0 else (-1.0, -limit.value)))
    onset = Onset(min(onset.first, now.span[0]), onset.last)
    what = f"rollouts of one prompt are no equals: {way} (correlation {fmt(now.mean)} with their order)"
    return Fired(Finding(what, Action.WATCH, Confidence.MEDIUM, onset, (first,), "harder" if now.mean < 0 else ""))


CHECK = Check(
    id="O006",
    name="reset-leaks-state",
    family=Family.ROLLOUT,
    fault="Within a group the order of the rollouts decides their reward: a reset leaves something behind.",
    why="Rollouts of one prompt from one policy are exchangeable: their number must say nothing of their reward. When "
    "later ones earn more or less, the environment keeps state between episodes, wears out or grows harder. The policy "
    "is then paid for its place in the queue.",
    needs=Needs(all_of=(REWARD,), rows=10),
    thresholds=(
        Threshold("correlation", 0.05, "correlation", SourceKind.CONVENTION, "smaller ones move no advantage"),
        Threshold("z", 5, "standard errors", SourceKind.MEASURED, "docs/measurements.md: Rollout checks"),
        Threshold("sorted", 0.9, "correlation", SourceKind.DEFINITION, "a dump sorted by reward has nearly 1"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Replay the first and the last rollouts of a group from their seeds, each alone", "", "check"),
                Remedy("Build the environment anew for every episode, or reset all of its state", "", "set"),
            ),
            verify=(Verify("the order says nothing of the reward", REWARD, "", None, 20),),
        ),
        "harder": Plan(
            remedies=(
                Remedy(
                    "Replay the last rollouts of a group alone: files, memory or a database that fill up", "", "check"
                ),
                Remedy("Build the environment anew for every episode, or reset all of its state", "", "set"),
            ),
            verify=(Verify("the order says nothing of the reward", REWARD, "", None, 20),),
        ),
    },
    leads_to=("O003", "R010", "R014"),
    patience=2,
    look_alikes=(
        LookAlike("A dump in order of finishing", "the length follows the order at least as much"),
        LookAlike("A dump sorted by reward", "the correlation is nearly 1"),
    ),
    sources=("Why GRPO training fails: termination and reset", "docs/measurements.md: Rollout checks"),
)
