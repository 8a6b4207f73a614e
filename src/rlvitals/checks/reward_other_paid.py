"""R020: rollouts whose answer is plainly another one than the gold answer are scored right."""

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

OTHER, PAID = "rollouts/other_answer_n", "rollouts/other_answer_paid"

TOLD = Told(
    few="have a number for an answer that is wrong",
    count="{events} of {cases} answers with another number than the gold one, or none, were scored right {where}",
    fault="The verifier pays wrong answers: {share} of those that are plainly another number",
    examples="other-answer",
)


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
    judge=partial(judge, cases=OTHER, events=PAID, told=TOLD),
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
