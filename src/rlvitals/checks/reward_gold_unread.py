"""R021: completions that end with the gold answer earn nothing, and nothing was parsed from them."""

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
from rlvitals.checks.counted import Counted, counter, densest, is_over
from rlvitals.view import View

RIGHT, UNREAD = "rollouts/right_n", "rollouts/right_unread_n"


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    found: Counted = view.state
    share, few = limits["share"], limits["rollouts"]
    if not found.cases >= few.value:
        return NoData((RIGHT,), f"fewer than {few.value:g} rollouts give the gold answer")
    part = densest(view, found, RIGHT, UNREAD, few.value)
    text = (
        f"{part.events:.0f} of {part.cases:.0f} sampled right answers {part.where} were not read: they end with the "
        "gold answer, nothing was parsed, and they earned nothing"
    )
    if part.events < few.value or part.share < share.value or is_over(view, found, RIGHT):
        since = f", the last one in step {found.last}" if found.last >= 0 else ""
        return Clear(f"{text}{since}; limit {share} and {few.value:g} rollouts")
    evidence = Evidence(
        UNREAD,
        f"{text}; the first one in step {found.first}; limit {share}",
        part.share,
        share.unit,
        (found.first, found.last),
        share,
        ">=",
        examples=view.examples("gold-at-end", 3),
    )
    what = f"The parser does not read {part.share:.0%} of the right answers"
    return Fired(Finding(what, Action.FIX, Confidence.HIGH, Onset(found.first, found.first), (evidence,)))


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
    judge=judge,
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
