"""O002: rollouts of a group are near-identical, or completions loop."""

from __future__ import annotations

import math
from collections.abc import Mapping

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
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import companions, mastery
from rlvitals.checks.common import fmt, onset_of, start, tied_rows
from rlvitals.checks.rollout_common import mastered
from rlvitals.schema import Float64
from rlvitals.view import View

ROWS = 20
NEAR = "rollouts/near_identical_frac"
HALF = 0.5  # of the share of tied groups that is too much: as many may be tied because all are right
GROUP_MARGIN = 1.5  # times 1/G, the unique share of a group of copies


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    seen: list[str] = []
    for look in (_copies, _near, _loops):
        found = look(view, limits)
        if isinstance(found, Finding):
            return Fired(found)
        seen += [found] if found else []
    return Clear("; ".join(seen))


def _copies(view: View, limits: Mapping[str, Threshold]) -> Finding | str:
    steps, values = view.recent("unique_frac")
    steps, values = steps[-ROWS:], values[-ROWS:]
    if values.size < 5:
        return ""
    limit, group = limits["unique_frac"], view.config.group_size
    bound = max(limit.value, GROUP_MARGIN / group if group else 0.0)
    now, where, began = stats.median(values), (int(steps[0]), int(steps[-1])), start(view, "unique_frac")
    span = f"steps {where[0]}-{where[1]}"
    seen = f"{fmt(100 * now)}% of a group's completions differ over {span}, {fmt(100 * began)}% at the start"
    if not now < bound:
        return f"{seen}; limit {limit}"
    shown = view.examples("copies", 3)
    first = Evidence("unique_frac", f"{seen}; limit {limit}", now, "fraction", where, limit, "<", began, shown)
    onset = onset_of(view, "unique_frac", 0.0, bound, center="median")
    what = f"rollouts of a group are near-identical: {fmt(100 * now)}% differ"
    place, (tied_at, tied) = companions.reward_place(view), tied_rows(view, ROWS)
    dead = float(tied.mean()) if tied.size else math.nan
    worse, limit_tied = companions.worse_since(view, onset), limits["tied_share"]
    tied_before = began >= bound and start(view, "zero_variance_frac") > limit_tied.value
    wrong = _tied_apart(tied, mastered(view, tied_at))
    if dead > limit_tied.value and place < 0.9 and not tied_before and wrong > HALF * limit_tied.value:
        text = f"{fmt(100 * dead)}% of the groups have equal rewards over the same steps; limit {limit_tied}"
        second = Evidence("zero_variance_frac", text, dead, "fraction", where, limit_tied, ">")
        return Finding(
            f"{what}, and most groups are tied", Action.ADJUST, Confidence.HIGH, onset, (first, second, *worse)
        )
    if worse:
        return Finding(f"{what}, and the policy got worse", Action.ADJUST, Confidence.HIGH, onset, (first, *worse))
    solved = mastery.confirmed(view)
    if solved is not None:
        text = f"{what}, as the task is mastered"
        return Finding(text, Action.NOTE, Confidence.HIGH, onset, (first, solved))
    return Finding(what, Action.WATCH, Confidence.MEDIUM, onset, (first,))


def _tied_apart(tied: Float64, right: Float64) -> float:
    """Return the share of groups tied and not all right in the half of the rows that has fewer of them.

    Right and alike before, wrong and alike since a few rows is a fall that began just now; the two together are not.
    """
    apart = tied - right  # at the same steps
    half = apart.size // 2
    return min(float(apart[:half].mean()), float(apart[half:].mean())) if half else math.nan


def _near(view: View, limits: Mapping[str, Threshold]) -> Finding | str:
    """Groups whose completions share nearly all of their word triples, though no two need be equal."""
    steps, values = view.recent(NEAR, ROWS)
    if values.size < 5:
        return ""
    # the mean: with two groups a step the median is one of three values
    limit, now, began = limits["near_identical"], float(values.mean()), start(view, NEAR)
    where = (int(steps[0]), int(steps[-1]))
    seen = f"{fmt(100 * now)}% of the groups are near-identical over steps {where[0]}-{where[1]}"
    right = float(mastered(view, steps).mean())
    if not now - right > limit.value:  # the groups that are both are at least the rest: copies of right answers
        return f"{seen}, {fmt(100 * right)}% of them all right, {fmt(100 * began)}% at the start; limit {limit}"
    text = f"{seen}, {fmt(100 * began)}% at the start; limit {limit}"
    first = Evidence(NEAR, text, now, "fraction", where, limit, ">", began)
    onset = onset_of(view, NEAR, limit.value, 1.0, center="median")
    worse = companions.worse_since(view, onset)
    action, confidence = (Action.ADJUST, Confidence.HIGH) if worse else (Action.WATCH, Confidence.MEDIUM)
    return Finding(f"most groups are near-identical: {seen}", action, confidence, onset, (first, *worse))


def _loops(view: View, limits: Mapping[str, Threshold]) -> Finding | str:
    steps, values = view.recent("repetition_frac")
    steps, values = steps[-ROWS:], values[-ROWS:]
    if values.size < 5:
        return ""
    limit, many = limits["repetition_frac"], limits["repetition_many"]
    now, where, began = stats.median(values), (int(steps[0]), int(steps[-1])), start(view, "repetition_frac")
    span = f"steps {where[0]}-{where[1]}"
    seen = f"{fmt(100 * now)}% of the completions loop over {span}, {fmt(100 * began)}% at the start"
    if not now > limit.value:
        return f"{seen}; limit {limit}"
    used = many if now > many.value else limit
    shown = view.examples("repetition", 3)
    first = Evidence("repetition_frac", f"{seen}; limit {used}", now, "fraction", where, used, ">", began, shown)
    onset = onset_of(view, "repetition_frac", limit.value, 1.0, center="median")
    worse, what = companions.worse_since(view, onset), f"{fmt(100 * now)}% of the completions repeat themselves"
    if worse:
        text = f"{what}, and the policy got worse"
        return Finding(text, Action.ADJUST, Confidence.HIGH, onset, (first, *worse), "loops")
    return Finding(what, Action.WATCH, Confidence.MEDIUM, onset, (first,), "loops")


_BASIS = "docs/measurements.md: Diversity"
CHECK = Check(
    id="O002",
    name="repetitive-rollouts",
    family=Family.ROLLOUT,
    fault="Rollouts repeat: the same completion several times in a group, or loops within one.",
    why="Groups of copies have equal rewards and teach nothing, and a policy that has narrowed to "
    "one strategy cannot find "
    "a better one. From the first step on it points to a sampling temperature that is too low; later to collapse. "
    "Short answers to a solved task repeat harmlessly.",
    needs=Needs(any_of=("unique_frac", "repetition_frac", NEAR), rows=10),
    thresholds=(
        Threshold(
            "unique_frac", 0.2, "fraction", SourceKind.MEASURED, f"{_BASIS} (healthy 0.30 at the end, T=0.05: 0.15)"
        ),
        Threshold("tied_share", 0.5, "of groups", SourceKind.PAPER, "Why GRPO training fails: well below half"),
        Threshold("near_identical", 0.5, "of groups", SourceKind.CONVENTION, "most groups, mastered ones apart"),
        Threshold("repetition_frac", 0.1, "fraction", SourceKind.CONVENTION, "one completion in ten"),
        Threshold("repetition_many", 0.25, "fraction", SourceKind.MEASURED, _BASIS),
        companions.REWARD_DROP_Z,
        companions.HELDOUT_DROP_Z,
    ),
    judge=judge,
    patience=2,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Read one group in full, and check the temperature that the sampler really uses",
                    "temperature",
                    "check",
                ),
                Remedy("Raise the sampling temperature", "temperature", "raise"),
            ),
            verify=(Verify("more than 20% of a group's completions differ", "unique_frac", ">", 0.2, 20),),
        ),
        "loops": Plan(
            remedies=(
                Remedy("Read ten looping completions, and check how they are scored", "verifier", "check"),
                Remedy("Cut a completion that loops, and score it as wrong", "verifier", "set"),
            ),
            verify=(Verify("less than a tenth of the completions loop", "repetition_frac", "<", 0.1, 20),),
        ),
    },
    leads_to=(
        "S001",
        "L001",
        "L002",
        "L004",
        "R014",
    ),
    look_alikes=(
        LookAlike("Short answers to a solved task repeat", "held-out rose with a high reward: a note"),
        LookAlike("Prompts that are mastered are answered alike", "groups that are all right are taken off the share"),
        LookAlike("A reward that breaks long after groups had become alike", "it was best with them alike: watch"),
        LookAlike("Groups that were tied before they were alike", "their ties are no sign of it: watch"),
        LookAlike("A quarter of a group of four is the least there can be", "judged against 1/G"),
    ),
    sources=("Why GRPO training fails: rollout diversity", "docs/measurements.md: Diversity"),
)
