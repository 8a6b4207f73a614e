"""R021: completions that end with the gold answer earn nothing, and nothing was parsed from them."""

from __future__ import annotations

from functools import partial

from rlvitals.check import (
    Check,
    Family,
    LookAlike,
    Needs,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.counted import Told, counter, judge

RIGHT, UNREAD = "rollouts/right_n", "rollouts/right_unread_n"

TOLD = Told(
    few="give the gold answer",
    count="{events} of {cases} sampled right answers {where} were not read: they end with the gold answer, nothing was "
    "parsed, and they earned nothing",
    fault="The parser does not read {share} of the right answers",
    examples="gold-at-end",
)


CHECK = Check(
    id="R021",
    name="right-answers-unread",
    family=Family.REWARD,
    fault="Completions end with the gold answer, nothing is parsed from them, and they earn nothing.",
    why="The parser looks for the answer where the policy does not write it: other tags, another style, a changed "
    "prompt. Right answers count as wrong ones, so the reward says nothing of the task; the policy looks too weak for "
    "tasks that it solves.",
    needs=Needs(all_of=(RIGHT, UNREAD), rows=3),
    thresholds=(
        Threshold(
            "share",
            0.5,
            "of the right answers",
            SourceKind.DEFINITION,
            "most right answers count as wrong ones",
        ),
        Threshold("rollouts", 10, "rollouts", SourceKind.CONVENTION, "fewer may be numbers that only happen to end it"),
    ),
    judge=partial(judge, cases=RIGHT, events=UNREAD, told=TOLD),
    fold=counter(RIGHT, UNREAD),
    plans={
        "": Plan(
            remedies=(
                Remedy("Stop, and read the examples beside what the parser expects", "parser", "check"),
                Remedy("Parse what the policy writes, or state the format in the prompt", "parser", "set"),
                Remedy("Where the format is asked for, give it a reward of its own, or warm-start it", "", "set"),
            ),
            verify=(Verify("right answers are read", UNREAD, "==", 0.0, 20),),
            rollback=Rollback.BEFORE_ONSET,
        )
    },
    leads_to=("R004", "R001", "R002", "T001", "S001", "R010", "R012", "R013", "R014", "H002", "R016", "U008", "S005"),
    look_alikes=(
        LookAlike("Answers too hard for the policy", "only completions that end with the gold answer are counted"),
        LookAlike("A format that some completions miss", "fewer than half of the right answers earn nothing"),
        LookAlike("A parsed answer is kept", "then gold-answers-score-zero compares it"),
    ),
    sources=("Why GRPO training fails: reward extraction", "docs/measurements.md: Wrong answers that are paid"),
)
