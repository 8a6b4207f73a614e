"""L005: completions are counted as cut although they end well below the budget."""

from __future__ import annotations

import math
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
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import cut, now, onset_of
from rlvitals.view import View

CUT_SHORT = "rollouts/cut_short_frac"


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    short = _cut_short(view, limits["below_budget"])
    if short is not None:
        return Fired(short)
    got, limit = cut(view), limits["reported_share"]
    length = now(view, "length_mean", 20)
    if got is None or not got.mismatched:
        return Clear(
            f"truncated_frac is {now(view, 'truncated_frac', 20).mean:.2f} with a mean length of {length.mean:.0f} "
            f"tokens"
            + (f" of {got.budget:.0f}" if got is not None and got.budget else "")
            + "; a mismatch shows as 0.9 or more with lengths below 70% of the budget"
        )
    masked = view.config.masks_truncated is True
    against = f"{got.budget:.0f}" if got.budget else f"{now(view, 'length_max', 20).high:.0f} at most"
    return Fired(
        Finding(
            f"{got.share:.0%} of completions count as cut, but they end at {length.mean:.0f} tokens: a stop token is "
            f"not "
            "recognised" + (", and cut ones are masked out of the loss" if masked else ""),
            Action.FIX if masked else Action.WATCH,
            Confidence.HIGH if masked else Confidence.MEDIUM,
            onset_of(view, "truncated_frac", limit.value, math.inf),
            (
                Evidence(
                    "truncated_frac",
                    f"truncated_frac is {got.share:.2f} over the last {got.n} logged steps (limit {limit}) while "
                    f"completions "
                    f"average {length.mean:.0f} tokens of {against}",
                    got.share,
                    "fraction",
                    got.steps,
                    limit,
                    ">=",
                ),
            ),
        )
    )


def _cut_short(view: View, limit: Threshold) -> Finding | None:
    """Rollouts that carry their own ending, length and budget: the better source, one by one."""
    level = now(view, CUT_SHORT, 20)
    if level.n < 5 or not level.mean >= limit.value:
        return None
    masked = view.config.masks_truncated is True
    text = (
        f"{level.mean:.0%} of the rollouts said to be cut ended below 70% of their budget over steps "
        f"{level.steps[0]}-{level.steps[1]} (limit {limit})"
    )
    evidence = Evidence(CUT_SHORT, text, level.mean, limit.unit, level.steps, limit, ">=")
    what = "rollouts count as cut and ended far below their budget: a stop token is not recognised"
    return Finding(
        what + (", and cut ones are masked out of the loss" if masked else ""),
        Action.FIX if masked else Action.WATCH,
        Confidence.HIGH if masked else Confidence.MEDIUM,
        onset_of(view, CUT_SHORT, limit.value, math.inf),
        (evidence,),
    )


CHECK = Check(
    id="L005",
    name="stop-token-mismatch",
    family=Family.LENGTH,
    fault="Completions count as cut at the budget although they end well below it.",
    why="The model ends with another end-of-sequence token than the trainer looks for. The truncated share is then "
    "wrong, and where cut completions are masked, nearly everything is thrown out of the loss.",
    needs=Needs(all_of=("truncated_frac", "length_mean"), rows=5),
    thresholds=(
        Threshold(
            "reported_share",
            0.9,
            "of completions",
            SourceKind.DEFINITION,
            "a completion shorter than the budget was not cut by it",
        ),
        Threshold(
            "below_budget", 0.5, "of the rollouts said to be cut", SourceKind.DEFINITION, "most of them were not cut"
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Compare the end-of-sequence ids of model, generation config and tokenizer", "", "check"),
                Remedy("Add the missing stop token to sampler and trainer", "", "set"),
            ),
            verify=(Verify("the truncated share agrees with the lengths", "truncated_frac", "<", 0.5, 20),),
        )
    },
    leads_to=("U009", "L001", "L004"),
    look_alikes=(
        LookAlike("every completion really is cut", "mean, smallest and largest length equal the budget: L004"),
    ),
    sources=("docs/false-alarms.md: 23", "trl PR#7039"),
)
