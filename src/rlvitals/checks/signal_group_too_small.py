"""S004: groups are so small that chance alone ties most of them."""

from __future__ import annotations

from collections.abc import Mapping

from rlvitals import shares
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
    NotApplicable,
    Onset,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import RECENT
from rlvitals.checks.signal_common import span, tied_groups
from rlvitals.view import View

MAX_GROUP = 64  # the largest group that is proposed
ENOUGH = 20  # values of the pass rate


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    group = view.config.group_size
    if group is None or group < 2:
        return NotApplicable("one rollout per prompt: advantage-equals-score judges that")
    low, high = limits["lowest_rate"].value, limits["highest_rate"].value
    steps, rates = view.recent("success_frac")
    steps, rates = steps[-RECENT:], rates[-RECENT:]
    if rates.size < ENOUGH:
        return NoData(("success_frac",))
    rate = float(rates.mean())
    law = shares.zero_variance_law(rate, group)
    limit = limits["tied_by_law"]
    if not low <= rate <= high:
        return NotApplicable(f"at a pass rate of {rate:.3f} the difficulty ties the groups, not their size")
    if law <= limit.value:
        return Clear(
            f"groups of {group} at a pass rate of {rate:.2f} tie in {law:.0%} of cases by chance; limit {limit}"
        )
    enough = next(g for g in range(group, MAX_GROUP + 1) if g == MAX_GROUP or shares.zero_variance_law(rate, g) <= 0.2)
    evidence = [
        Evidence(
            metric="success_frac",
            text=f"at the pass rate of {rate:.2f} (steps {span(steps)[0]}-{span(steps)[1]}) groups of {group} tie in "
            f"{law:.0%} of cases by chance alone, {shares.zero_variance_law(rate, enough):.0%} at {enough}; limit "
            f"{limit}",
            observed=law,
            unit="share of groups",
            steps=span(steps),
            threshold=limit,
            comparison=">",
        )
    ]
    tied = tied_groups(view)
    if tied is not None and tied.size >= ENOUGH:
        share = float(tied.values.mean())
        evidence.append(
            Evidence(
                metric=tied.source,
                text=f"{share:.0%} of the groups were tied in the same steps",
                observed=share,
                unit="share of groups",
                steps=span(tied.steps),
            )
        )
    summary = (
        f"groups of {group} are too small for a pass rate of {rate:.2f}: {law:.0%} tie by chance; {enough} would do"
    )
    return Fired(
        Finding(summary, Action.WATCH, Confidence.MEDIUM, Onset(int(steps[0]), int(steps[-1])), tuple(evidence))
    )


CHECK = Check(
    id="S004",
    name="group-too-small",
    family=Family.SIGNAL,
    fault="Groups are so small that chance alone ties most of them.",
    why="A binary reward with pass rate p ties a group of G with probability p^G + (1-p)^G even when nothing is wrong. "
    "More rollouts per prompt turn the same prompts into signal, up to the point where difficulty itself is the limit.",
    needs=Needs(all_of=("success_frac",), config=("group_size",), rows=ENOUGH),
    thresholds=(
        Threshold(
            "tied_by_law", 0.5, "share of groups", SourceKind.DEFINITION, "p^G + (1-p)^G: half the groups are lost"
        ),
        Threshold("lowest_rate", 0.1, "pass rate", SourceKind.CONVENTION, "below, the task is too hard: curriculum"),
        Threshold("highest_rate", 0.9, "pass rate", SourceKind.CONVENTION, "above, the task is too easy: curriculum"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(Remedy("Sample more rollouts per prompt, fewer prompts per step", "group_size", "raise"),),
            verify=(Verify("the share of tied groups is below 0.5", "zero_variance_frac", "<", 0.5, 50),),
        ),
    },
    leads_to=("S001",),
    look_alikes=(
        LookAlike("A small group with a graded reward", "without a pass rate the law does not apply: no data"),
        LookAlike("A task that is too hard or too easy", "the pass rate is outside 0.1 to 0.9"),
    ),
    patience=2,
    sources=("docs/evidence.md: Finite-group law", "CoursIA#10603"),
)
