"""R018: a phrase that the run did not write before has become what pays."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rlvitals import stats
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
    Onset,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt
from rlvitals.checks.rollout_common import ROWS, Recent, speaks
from rlvitals.schema import Example
from rlvitals.view import View

CODE, SHARE, GAP, SURE, RIGHT = (f"rollouts/phrase_{n}" for n in ("code", "share", "gap", "z", "right_gap"))
FIRST = 10  # first values whose phrases count as there from the start


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    code, sure = view.rows_of(CODE, ROWS), view.rows_of(SURE, ROWS)
    share, gap, right = (view.rows_of(m, ROWS) for m in (SHARE, GAP, RIGHT))
    there = np.isfinite(code) & np.isfinite(sure)
    strong = there & (sure > limits["z"].value) & (gap > 0)
    found, count = np.unique(code[strong], return_counts=True)
    few = limits["steps"]
    if found.size == 0 or count.max() < few.value:
        most = int(count.max()) if found.size else 0
        return Clear(
            f"no phrase pays surely in {few.value:.0f} of the last {int(there.sum())} steps; the most is {most}"
        )
    top = float(found[int(np.argmax(count))])
    at = strong & (code == top)
    steps = view.steps_of(ROWS)
    now = Recent(SHARE, steps[at], share[at])
    old = view.head(CODE, FIRST)
    text = f"one phrase pays in {int(at.sum())} of {int(there.sum())} steps and stands in {now.mean:.0%} of the texts"
    if top in old:
        return Clear(f"{text}; it was among the first steps' already")
    limit = limits["share"]
    if now.mean < limit.value:
        return Clear(f"{text}; limit {limit}")
    shown = _most_common(view.examples("phrases", 12))[:3]
    quoted = _quoted(shown)
    extra = float(stats.median(gap[at]))
    first = speaks(now, f"{text}, worth {fmt(extra)} reward each{quoted}", limit, ">=", examples=shown)
    merit = right[at]
    merit = merit[np.isfinite(merit)]
    onset = Onset(min(_last_without(view, top), int(now.steps[0])), int(now.steps[0]))
    what = f"a phrase that the run did not write at first now pays{quoted}"
    if merit.size >= few.value and float(merit.mean()) <= limits["merit"].value * extra / _span(view):
        limit_m = limits["merit"]
        more = (
            f"texts with it are right {fmt(float(merit.mean()))} more often, for {fmt(extra)} reward; limit {limit_m}"
        )
        second = Evidence(RIGHT, more, float(merit.mean()), "fraction", now.span, limit_m, "<=")
        return Fired(
            Finding(f"{what}, without more right answers", Action.FIX, Confidence.HIGH, onset, (first, second), "hack")
        )
    return Fired(Finding(what, Action.WATCH, Confidence.MEDIUM, onset, (first,)))


def _span(view: View) -> float:
    """Return the range of single rewards of this run, 1 where it is not known."""
    low, high = view.extremes("rollouts/reward_min")[0], view.extremes("rollouts/reward_max")[2]
    return high - low if math.isfinite(low) and math.isfinite(high) and high > low else 1.0


def _last_without(view: View, top: float) -> int:
    """Return the last step before the phrase came first at all, within the exact window."""
    steps, codes = view.recent(CODE)
    first = int(np.argmax(codes == top)) if (codes == top).any() else 0
    return int(steps[max(first - 1, 0)]) if steps.size else view.first_step


def _most_common(shown: tuple[Example, ...]) -> tuple[Example, ...]:
    """Return the latest examples of the phrase that most of them quote."""
    quoted = [_phrase(e) for e in shown]
    top = max(quoted, key=quoted.count) if quoted else ""
    return tuple(e for e, phrase in zip(shown, quoted, strict=True) if phrase == top)


def _phrase(example: Example) -> str:
    return example.excerpt.partition("\u00ab")[2].partition("\u00bb")[0]


def _quoted(shown: tuple[Example, ...]) -> str:
    phrase = _phrase(shown[0]) if shown else ""
    return f': "{phrase[:80]}"' if phrase else ""


CHECK = Check(
    id="R018",
    name="paying-phrase",
    family=Family.REWARD,
    fault="A phrase that the run did not write at first has become what separates rewarded from unrewarded rollouts.",
    why="Exploits are often text: words that satisfy the verifier, or talk a judge into full marks, whatever the task. "
    "They show as a run of words that newly rewarded rollouts share and the others do not. Where correctness is known "
    "apart from the reward and does not rise with the phrase, it is a hack.",
    needs=Needs(all_of=(CODE, SHARE, GAP, SURE), rows=FIRST + ROWS),
    thresholds=(
        Threshold("z", 5, "standard errors", SourceKind.MEASURED, "docs/measurements.md: Rollout checks"),
        Threshold("steps", 6, "of the last 20 steps", SourceKind.MEASURED, "docs/measurements.md: Rollout checks"),
        Threshold("share", 0.15, "of the texts", SourceKind.CONVENTION, "rarer phrases cannot carry the reward"),
        Threshold(
            "merit", 0.3, "of the reward gap", SourceKind.DEFINITION, "a gap of the task is a gap in correctness"
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Read the named rollouts: does the phrase earn the reward, or the work behind it", "", "check"),
                Remedy("Score the same texts with the phrase taken out", "verifier", "check"),
            ),
            verify=(Verify("the phrase no longer pays", SURE, "<", 5.0, 30),),
        ),
        "hack": Plan(
            remedies=(
                Remedy("Score the named rollouts by hand, and with the phrase taken out", "verifier", "check"),
                Remedy("Close the hole in the verifier, and resume from before the onset", "verifier", "set"),
            ),
            verify=(Verify("the phrase no longer pays", SURE, "<", 5.0, 30),),
            rollback=Rollback.BEFORE_ONSET,
        ),
    },
    leads_to=("R003", "R005", "R008", "R009", "H001", "H002", "O002", "S001"),
    patience=2,
    look_alikes=(
        LookAlike("The answer format, learned in the first steps", "it was among the first steps' phrases already"),
        LookAlike("A way of working that solves the task", "texts with it are right more often too: watch at most"),
        LookAlike("Another phrase comes first in every step", "chance: the same one must pay in several steps"),
    ),
    sources=("Why GRPO training fails: reward extraction", "docs/measurements.md: Rollout checks"),
)
