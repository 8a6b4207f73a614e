"""T001: the base policy almost never succeeds, so there is nothing to amplify."""

from __future__ import annotations

import math
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
from rlvitals.checks import companions
from rlvitals.checks.base_success import (
    FAILED_ROWS,
    JUDGEABLE,
    MIN_ROWS,
    SUCCESS_RATE,
    Success,
    may_take_off,
    measure,
    nearly_never,
)
from rlvitals.checks.common import fmt, now, rollouts_per_row, shift, tied_share
from rlvitals.view import View

FULL_ROWS = 20  # below this only a run without a single success is judged


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    for metric, what in (("truncated_frac", "cut at the token budget"), ("parse_failure_frac", "not parsed")):
        level = now(view, metric)
        if level.n and level.mean >= limits["judgeable_share"].value:
            return NotApplicable(f"{level.mean:.0%} of completions are {what}: success cannot be judged before that")
    got = measure(view)
    if got is None:
        return NoData(("success_frac",), "the reward is constant above zero or too short to show what failing is")
    limit = limits["failed_rows"]
    if not nearly_never(got):
        return Clear(
            f"{got.metric} is at its floor ({fmt(got.floor)}) in {got.failed:.0%} of the recent logged steps and "
            f"{got.head_failed:.0%} of the first ones; limit {limit.value:.0%} of both"
        )
    lost = _could_at_first(view, got, limits)
    if lost:
        return Clear(lost)
    never = got.failed == 1.0 and got.head_failed == 1.0 and shift_is_flat(view, got.metric)
    if got.rows < FULL_ROWS and not never:
        return NoData((got.metric,), f"{got.rows} logged steps; {FULL_ROWS} are needed once anything succeeded")
    if shift(view, got.metric).low > 0:
        return Clear(f"{got.metric} is low ({fmt(got.rate)} of its range) but rising over the run")
    return Fired(finding(view, got, limits, never=never))


def _could_at_first(view: View, got: Success, limits: Mapping[str, Threshold]) -> str:
    """Say what shows that the policy did succeed before it was trained, "" when nothing does."""
    first, ties = float(view.head(got.metric, 1)[0]), view.head("zero_variance_frac", 1)
    place = (first - got.floor) / (got.top - got.floor)
    if place >= limits["first_success"].value and ties.size and ties[0] <= limits["first_tied"].value:
        return (
            f"{got.metric} was {fmt(first)} at the first step, with {1 - ties[0]:.0%} of the groups mixed: the policy "
            "could solve tasks, and lost it"
        )
    for fell in companions.heldout_fell(view):
        if fell.before is not None and fell.before >= limits["first_success"].value:
            return f"{fell.text}: the policy could solve tasks, and lost it"
    return ""


def shift_is_flat(view: View, metric: str) -> bool:
    low, _, high, _ = view.extremes(metric)
    return low == high


def finding(view: View, got: Success, limits: Mapping[str, Threshold], *, never: bool) -> Finding:
    level = now(view, got.metric)
    text = (
        f"{got.metric} is {fmt(got.floor)}, its floor, in {got.failed:.0%} of the last {level.n} logged steps and in "
        f"{got.head_failed:.0%} of the first ones (mean {level.mean:.3g}; limit {limits['failed_rows']})"
    )
    per_row = rollouts_per_row(view)
    if per_row is not None:
        n = per_row * got.rows
        _, upper = shares.wilson(max(got.rate, 0.0) * n, n)
        group = view.config.group_size or 1
        text += f"; at most {upper:.2g} of rollouts succeed (95% bound, {n:.0f} rollouts)"
        text += f", so at most {fmt(100 * (1 - (1 - upper) ** group))}% of the groups carry a signal"
    evidence = [
        Evidence(
            got.metric, text, got.failed, "fraction of steps", (view.first_step, view.step), limits["failed_rows"], ">="
        )
    ]
    ties = tied_share(view)
    tied = float(ties.mean()) if ties.size else math.nan
    if ties.size:
        evidence.append(
            Evidence(
                "zero_variance_frac",
                f"{tied:.0%} of the groups of the last {ties.size} logged steps have no reward difference "
                f"(limit {limits['tied_groups']})",
                tied,
                "fraction",
                level.steps,
                limits["tied_groups"],
                ">=",
            )
        )
    lasting = never or (tied >= limits["tied_groups"].value and not may_take_off(view))
    sure = lasting and got.rows >= FULL_ROWS
    word = "no rollout has succeeded since the first step" if never else "almost no rollout has ever succeeded"
    return Finding(
        f"{word[0].upper()}{word[1:]}: GRPO has nothing to amplify, or the verifier returns its floor for everything",
        Action.FIX if sure else Action.WATCH,
        Confidence.HIGH if sure and ties.size else Confidence.MEDIUM,
        Onset(view.first_step, view.first_step),
        tuple(evidence),
    )


CHECK = Check(
    id="T001",
    name="base-success-near-zero",
    family=Family.TASK,
    fault="The policy has practically never solved a training task, from the first step on.",
    why="The group-relative advantage needs some successes to point at: with none, every group is tied and no step "
    "teaches anything (triage of 'Why GRPO training fails', first question). A verifier that returns its floor for "
    "everything looks exactly the same in step logs; hand-scoring tells them apart.",
    needs=Needs(any_of=("success_frac", "reward_mean"), rows=MIN_ROWS),
    thresholds=(
        Threshold("first_success", 0.1, "of the range", SourceKind.CONVENTION, "far above a success rate near zero"),
        Threshold(
            "first_tied",
            0.5,
            "of groups",
            SourceKind.DEFINITION,
            "a success rate near zero leaves hardly any mixed group",
        ),
        FAILED_ROWS,
        SUCCESS_RATE,
        Threshold(
            "tied_groups",
            0.75,
            "of groups",
            SourceKind.DEFINITION,
            "a tied group has zero advantage; three of four steps teach nothing",
        ),
        JUDGEABLE,
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Score gold answers with the verifier in the worker process: they must get full marks",
                    "verifier",
                    "check",
                ),
                Remedy("Start on an easier tier, or warm-start with supervised examples", "curriculum", "lower"),
                Remedy("Check that the tasks can be solved at all through the interface the model uses", "", "check"),
                Remedy("Sample more rollouts per prompt, so that rare successes show", "group_size", "raise"),
            ),
            verify=(
                Verify(
                    "less than half of the groups are tied over the next 20 steps", "zero_variance_frac", "<", 0.5, 20
                ),
            ),
        )
    },
    leads_to=("R001", "R010", "R012", "R013", "S001", "S005", "U007", "U008", "K002"),
    look_alikes=(
        LookAlike("every completion is cut at the token budget", "truncated_frac near 1: L004 comes first"),
        LookAlike("one hard prompt per step, so many steps end with reward 0", "the reward rises over the run"),
        LookAlike("the verifier returns 0 for everything", "only hand-scored rollouts tell; the plan begins there"),
    ),
    sources=("Why GRPO training fails: first question", "docs/measurements.md: Base success near zero"),
)
