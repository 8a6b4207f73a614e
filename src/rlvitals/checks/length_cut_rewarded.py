"""L006: rollouts that never stopped are counted right, or earn as much as finished ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

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
    Verify,
)
from rlvitals.checks.common import fmt, onset_of
from rlvitals.checks.rollout_common import LEAST, began, change, recent, speaks
from rlvitals.checks.scale import reward_scale
from rlvitals.view import View

UNSTOPPED, CUT = "rollouts/right_unstopped_share", "rollouts/truncated_frac"
PAID, OTHERS = "rollouts/truncated_reward_mean", "rollouts/stopped_reward_mean"


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    now, cut, paid, others = (recent(view, m) for m in (UNSTOPPED, CUT, PAID, OTHERS))
    seen = []
    if now.n >= LEAST:
        watch, most = limits["unstopped_share"], limits["majority"]
        text = f"{now.mean:.0%} of the rollouts that count as right never stopped by themselves"
        seen.append(f"{text}; limit {watch}")
        falls = change(view, UNSTOPPED)[2] < -limits["falling_z"].value
        if now.mean >= watch.value and not (falls and now.mean < most.value):
            limit = most if now.mean >= most.value else watch
            first = speaks(now, text, limit, ">=", before=began(view, UNSTOPPED), examples=view.examples("outcomes", 3))
            onset = onset_of(view, UNSTOPPED, watch.value, np.inf)
            bad = limit is most
            what = f"{now.mean:.0%} of the right answers come from rollouts that were cut: right and stopped is rare"
            return Fired(
                Finding(
                    what if bad else text,
                    Action.FIX if bad else Action.WATCH,
                    Confidence.HIGH if bad else Confidence.MEDIUM,
                    onset,
                    (first,),
                )
            )
    few = limits["cut_share"]
    if cut.mean >= few.value and paid.n >= LEAST and others.n >= LEAST:
        scale = reward_scale(view)
        gap, limit = (others.mean - paid.mean) / scale.span if scale.span > 0 else np.nan, limits["pay_gap"]
        text = f"cut rollouts earn {fmt(paid.mean)}, finished ones {fmt(others.mean)}, and {cut.mean:.0%} are cut"
        seen.append(f"{text}; limit {limit}")
        if gap < limit.value and others.mean > scale.low + limit.value * scale.span:
            first = speaks(paid, text, limit, "<", observed=float(gap), before=others.mean,
                           examples=view.examples("outcomes", 3))  # fmt: skip
            what = f"cut rollouts earn as much as finished ones: {fmt(paid.mean)} against {fmt(others.mean)}"
            onset = onset_of(view, CUT, few.value, np.inf)
            return Fired(Finding(what, Action.WATCH, Confidence.MEDIUM, onset, (first,), "paid"))
    return Clear("; ".join(seen) or f"{cut.mean:.0%} of the rollouts are cut; too few to say what they earn")


CHECK = Check(
    id="L006",
    name="truncated-rewarded",
    family=Family.LENGTH,
    fault="Rollouts that were cut at the budget count as right, or earn as much as those that finished.",
    why="Reward for a text that never stops teaches not to stop. In one public run 113 of 128 rollouts were rewarded "
    "and none had stopped by itself; reward and loss looked fine. What is wanted is right and stopped.",
    needs=Needs(any_of=(UNSTOPPED, PAID, CUT), rows=LEAST),
    thresholds=(
        Threshold("unstopped_share", 0.25, "of the right rollouts", SourceKind.CONVENTION, "one in four"),
        Threshold(
            "majority", 0.5, "of the right rollouts", SourceKind.DEFINITION, "most of what is rewarded is unfinished"
        ),
        Threshold(
            "falling_z",
            4,
            "standard errors",
            SourceKind.MEASURED,
            "docs/measurements.md: Change of level under AR(1) noise",
        ),
        Threshold("cut_share", 0.1, "of rollouts", SourceKind.PAPER, "verl documentation: above 0.1 is too much"),
        Threshold("pay_gap", 0.1, "of the reward's range", SourceKind.CONVENTION, "a tenth of the range"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Score a rollout that was cut as wrong, whatever its text holds", "verifier", "set"),
                Remedy("Or leave cut rollouts out of the update", "masks_truncated", "set"),
                Remedy("Check that the stop token ends the completion in sampler and trainer", "", "check"),
            ),
            verify=(Verify("the right rollouts stop by themselves", UNSTOPPED, "<", 0.1, 30),),
        ),
        "paid": Plan(
            remedies=(Remedy("Read five cut rollouts, and say what they should earn", "verifier", "check"),),
            verify=(Verify("fewer rollouts are cut", CUT, "<", 0.1, 30),),
        ),
    },
    leads_to=("L001", "L002", "L004", "H001"),
    patience=2,
    look_alikes=(
        LookAlike("A base model that writes on after its answer, at first", "the share of unstopped right ones falls"),
        LookAlike("Everything earns nothing, cut or not", "finished rollouts must earn something"),
    ),
    sources=(
        "marin#8936",
        "docs/evidence.md: What no curve shows",
        "Why GRPO training fails: sequence length and truncation",
    ),
)
