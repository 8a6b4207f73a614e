"""R020: rollouts whose answer is plainly another one than the gold answer are scored right."""

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

OTHER, PAID = "rollouts/other_answer_n", "rollouts/other_answer_paid"


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    found: Counted = view.state
    share, few = limits["share"], limits["rollouts"]
    if not found.cases >= few.value:
        return NoData((OTHER,), f"fewer than {few.value:g} rollouts have a number for an answer that is wrong")
    part = densest(view, found, OTHER, PAID, few.value)
    text = (
        f"{part.events:.0f} of {part.cases:.0f} answers with another number than the gold one, or none, were scored "
        f"right {part.where}"
    )
    if part.events < few.value or part.share < share.value or is_over(view, found, OTHER):
        since = f", the last one in step {found.last}" if found.last >= 0 else ""
        return Clear(f"{text}{since}; limit {share} and {few.value:g} rollouts")
    evidence = Evidence(
        PAID,
        f"{text}, the first one in step {found.first}; limit {share}",
        part.share,
        "of the wrong answers",
        (found.first, found.last),
        share,
        ">=",
        examples=view.examples("other-answer", 3),
    )
    what = f"The verifier pays wrong answers: {part.share:.0%} of those that are plainly another number"
    return Fired(Finding(what, Action.FIX, Confidence.HIGH, Onset(found.first, found.first), (evidence,)))


CHECK = Check(
    id="R020",
    name="wrong-answers-paid",
    family=Family.REWARD,
    fault="Answers that are plainly not the gold answer are scored right.",
    why="A verifier that reads half of the answer, looks for it anywhere in the text or takes no answer for a "
    "right one pays a cheaper policy than the one that is wanted. The reward rises like learning until the held-out "
    "score is looked at; the policy finds the gap sooner or later.",
    needs=Needs(all_of=(OTHER, PAID), rows=3),
    thresholds=(
        Threshold(
            "share",
            0.02,
            "of the wrong answers",
            SourceKind.DEFINITION,
            "two different numbers are never the same answer; a fiftieth is left for gold answers that are wrong",
        ),
        Threshold("rollouts", 10, "rollouts", SourceKind.CONVENTION, "fewer may be slips of the data"),
    ),
    judge=judge,
    fold=counter(OTHER, PAID),
    plans={
        "": Plan(
            remedies=(
                Remedy("Stop, and read the examples: what does the verifier compare", "verifier", "check"),
                Remedy("Probe the scorer with empty, cut and neighbouring answers (rlvitals audit probe)", "verifier"),
                Remedy("Compare the whole answer, read from its place", "verifier", "set"),
            ),
            verify=(Verify("no wrong number is scored right", PAID, "==", 0.0, 20),),
            rollback=Rollback.BEFORE_ONSET,
        )
    },
    leads_to=("H001", "H002", "H003", "R003", "R009", "L002", "L003", "O002", "O004", "S001", "R018", "T002"),
    look_alikes=(
        LookAlike("Another notation of the same value", "fractions, units, percentages and words are not counted"),
        LookAlike("Rounded decimals", "decimals within one hundredth count as equal"),
    ),
    sources=("Why GRPO training fails: reward hacking", "docs/measurements.md: Wrong answers that are paid"),
)  # fmt: skip
