"""S002: the advantage is the reward itself, as with one rollout per prompt."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

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
    Tally,
    Threshold,
    Verify,
    tally,
)
from rlvitals.checks.signal_common import GROUP_BASELINE
from rlvitals.schema import Float64
from rlvitals.view import Chunk, View

MIN_TESTED = 5
PRINTED = 1.1e-3  # consoles print three decimals; two printed values of one number may differ by one unit
PAIRS = (("advantage_max", "reward_max"), ("advantage_min", "reward_min"))
NOT_CENTRED = 0.25  # of the mean reward; the means need not be equal: one over tokens weighs long answers more


def _equal(chunk: Chunk) -> tuple[np.ndarray, np.ndarray, Float64]:
    """Test the rows whose rewards differ and whose mean is not 0: there a centred advantage cannot equal them."""
    pairs = [(chunk.col(a), chunk.col(r)) for a, r in PAIRS]
    (a_max, r_max), (_, r_min) = pairs
    r_mean, a_mean = chunk.col("reward_mean"), chunk.col("advantage_mean")
    finite = (
        np.isfinite(r_mean) & np.isfinite(a_mean) & np.all([np.isfinite(a) & np.isfinite(r) for a, r in pairs], axis=0)
    )
    spread = r_max - r_min
    with np.errstate(invalid="ignore"):
        testable = finite & (spread > 10 * PRINTED) & (np.abs(r_mean) > 10 * PRINTED)
        equal = np.all([np.abs(a - r) <= PRINTED + 1e-4 * np.abs(r) for a, r in pairs], axis=0)
        equal &= np.abs(a_mean) > NOT_CENTRED * np.abs(r_mean)  # +1 and -1 in pairs equal their scores and are centred
    return testable, equal, a_max


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    config, state = view.config, view.state
    estimator = (config.advantage_estimator or "").lower()
    if estimator and estimator not in GROUP_BASELINE:
        return NotApplicable(f"{estimator} advantages are not relative to a group of rollouts")
    if not estimator and config.algorithm in ("ppo", "reinforce"):
        return NotApplicable(f"{config.algorithm} takes its baseline elsewhere")
    if config.group_size == 1:
        return _group_of_one(view, state, limits)
    if state.tested < MIN_TESTED:
        missing = tuple(a for pair in PAIRS for a in pair if not view.has(a))
        return NoData(missing or ("advantage_max",), f"{state.tested} rows can be tested; {MIN_TESTED} are needed")
    share = state.failed / state.tested
    if state.streak < MIN_TESTED or share < limits["equal_share"].value:
        return Clear(
            f"advantages equal the rewards in {state.failed} of {state.tested} rows; a group baseline makes that 0"
        )
    return _equals(view, state, limits)


def _equals(view: View, state: Tally, limits: Mapping[str, Threshold]) -> Outcome:
    first = state.first if state.first is not None else view.first_step
    evidence = Evidence(
        metric="advantage_max",
        text=f"largest and smallest advantage equal largest and smallest reward in {state.failed} of "
        f"{state.tested} steps since step {first} (last {state.value:.3g}); centring by group makes the mean 0",
        observed=state.failed / state.tested,
        unit="share of rows",
        steps=(first, view.step),
        threshold=limits["equal_share"],
        comparison=">",
    )
    summary = "the advantages are the rewards themselves: no group baseline is subtracted"
    return Fired(Finding(summary, Action.FIX, Confidence.HIGH, Onset(first, first), (evidence,)))


def _group_of_one(view: View, state: Tally, limits: Mapping[str, Threshold]) -> Outcome:
    evidence = [
        Evidence(
            metric="group_size",
            text="one rollout per prompt is configured; an advantage relative to its group needs at least "
            f"{limits['group_size']}",
            observed=1.0,
            unit="rollouts per prompt",
            steps=(view.first_step, view.step),
            threshold=limits["group_size"],
            comparison="<",
        )
    ]
    if state.tested >= MIN_TESTED and state.failed / state.tested >= limits["equal_share"].value:
        found = _equals(view, state, limits)
        evidence += list(found.finding.evidence) if isinstance(found, Fired) else []
    summary = "one rollout per prompt: there is no group to compare with, the advantage is the reward or zero"
    onset = Onset(view.first_step, view.first_step)
    return Fired(Finding(summary, Action.FIX, Confidence.HIGH, onset, tuple(evidence), "group of one"))


CHECK = Check(
    id="S002",
    name="advantage-equals-score",
    family=Family.SIGNAL,
    fault="The advantage is the reward itself: no group baseline is subtracted, as with one rollout per prompt.",
    why="GRPO compares rollouts of one prompt. With a group of one some trainers use mean 0 and std 1, so the "
    "advantage "
    "is the raw reward: every rewarded prompt is pushed up whatever its difficulty, and wrong answers with reward 0 "
    "teach nothing.",
    needs=Needs(),
    thresholds=(
        Threshold("equal_share", 0.9, "share of rows", SourceKind.DEFINITION, "group-relative advantages have mean 0"),
        Threshold("group_size", 2, "rollouts per prompt", SourceKind.DEFINITION, "a group mean needs two rollouts"),
    ),
    judge=judge,
    fold=tally(_equal, needs=tuple(metric for pair in PAIRS for metric in pair)),
    plans={
        "": Plan(
            remedies=(
                Remedy("Check how rollouts are grouped: by prompt id, with G rows of each", "", "check"),
                Remedy("Sample several rollouts of every prompt, 8 or more", "group_size", "raise"),
            ),
            verify=(Verify("the mean advantage is 0 within 0.01", "advantage_mean", "<", 0.01, 10),),
        ),
        "group of one": Plan(
            remedies=(
                Remedy("Sample several rollouts of every prompt, 8 or more", "group_size", "raise"),
                Remedy("Or choose an advantage estimator that needs no group", "advantage_estimator", "set"),
            ),
            verify=(Verify("the mean advantage is 0 within 0.01", "advantage_mean", "<", 0.01, 10),),
        ),
    },
    leads_to=("S003", "U001", "E004", "E002", "R010"),
    look_alikes=(
        LookAlike(
            "Rewards of +1 and -1 in groups of two: largest and smallest advantage are +1 and -1 too",
            "the mean advantage is 0 while the mean reward is not",
        ),
        LookAlike("REINFORCE or PPO, where the advantage has another baseline", "the configured estimator"),
    ),
    sources=("docs/evidence.md: Finite-group law", "docs/evidence.md: What no curve shows"),
)
