"""R015: rollouts that give the gold answer earn no reward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rlvitals.check import (
    Action,
    Check,
    Clear,
    Confidence,
    Evidence,
    Family,
    Finding,
    Fired,
    Fold,
    LookAlike,
    Needs,
    NoData,
    Onset,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.view import Chunk, View

GIVEN, MISSED = "gold_given/", "gold_missed/"


@dataclass(frozen=True, slots=True)
class Source:
    """One data source so far: rollouts that gave the gold answer, how many earned nothing, and since when."""

    name: str
    given: int
    missed: int
    first: int  # step of the first one that earned nothing, -1 while there is none


def _step(state: tuple[Source, ...], chunk: Chunk) -> tuple[Source, ...]:
    found = {s.name: s for s in state}
    for column in chunk.names:
        if not column.startswith(GIVEN):
            continue
        name = column[len(GIVEN) :]
        given, missed = np.nan_to_num(chunk.col(column)), np.nan_to_num(chunk.col(MISSED + name))
        old = found.get(name, Source(name, 0, 0, -1))
        first = old.first
        if first < 0 and missed.any():
            first = int(chunk.steps[np.argmax(missed > 0)])
        found[name] = Source(name, old.given + int(given.sum()), old.missed + int(missed.sum()), first)
    return tuple(sorted(found.values(), key=lambda s: s.name))


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    sources: tuple[Source, ...] = tuple(s for s in view.state if s.given)
    few, share = limits["rollouts"], limits["share"]
    if not sources:
        return NoData(("gold_given/",), "no rollout was found whose final answer is the gold answer")
    worst = max(sources, key=lambda s: (s.missed >= few.value, s.missed / s.given))
    shown = f"{worst.missed} of {worst.given} rollouts of {worst.name} that give the gold answer earn no reward"
    if worst.missed < few.value or worst.missed / worst.given < share.value:
        return Clear(f"{shown}; limit {share.value:.0%} and {few.value:g} rollouts")
    others = "; ".join(f"{s.name}: {s.missed} of {s.given}" for s in sources if s is not worst)
    evidence = Evidence(
        f"{MISSED}{worst.name}",
        f"{shown}, letter by letter, since step {worst.first} (limit {share})" + (f"; {others}" if others else ""),
        worst.missed / worst.given,
        "of the gold answers",
        (worst.first, view.step),
        share,
        ">=",
    )
    only = " of this one data source" if len(sources) > 1 else ""
    return Fired(
        Finding(
            f"The verifier{only} is broken: {shown}",
            Action.FIX,
            Confidence.HIGH,
            Onset(worst.first, worst.first),
            (evidence,),
        )
    )


CHECK = Check(
    id="R015",
    name="gold-answers-score-zero",
    family=Family.REWARD,
    fault="Rollouts whose final answer is the gold answer, letter by letter, earn no reward.",
    why="The reward that the trainer receives is not the reward that was defined: an exception turned into 0, a parser "
    "that misses the style, a verifier that is down for one data source. The mean over all sources hides it, and the "
    "policy is trained away from right answers.",
    needs=Needs(any_of=(GIVEN,)),
    thresholds=(
        Threshold(
            "share", 0.5, "of the gold answers", SourceKind.DEFINITION, "an answer equal to the gold answer is right"
        ),
        Threshold("rollouts", 5, "rollouts", SourceKind.CONVENTION, "fewer may be answers that a task forbids"),
    ),
    judge=judge,
    fold=Fold((), _step),
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Stop, and run the scorer on the gold answers in the worker process where training runs it", "", ""
                ),
                Remedy(
                    "Count verifier exceptions and time-outs by type; make them errors, not zero reward", "verifier"
                ),
                Remedy("Score every data source on its own", "", "check"),
            ),
            verify=(Verify("no rollout with the gold answer earns 0", MISSED, "==", 0.0, 1),),
            rollback=Rollback.BEFORE_ONSET,
        )
    },
    leads_to=("R006", "R001", "T001", "S001", "R010", "R012", "R014", "R004"),
    look_alikes=(
        LookAlike("a reward that also asks for a format", "fewer than half of the gold answers earn nothing"),
        LookAlike("a hard task", "only rollouts that give the gold answer are counted"),
    ),
    sources=("verl PR#5635", "open-r1#159", "Why GRPO training fails: reward extraction"),
)
