"""Y004: rollouts are older than the tolerance, or their age grows with every step."""

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
    Onset,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt, onset_of
from rlvitals.view import View

LAGS = ("version_lag_max", "version_lag_mean")
VERSION = "rollouts/policy_version_max"  # newest version among a step's rollouts, whatever the trainer says of the lag
ROWS = 20  # recent rows
SAW_ROWS = 64  # recent rows in which a saw-tooth is looked for
STUCK_ROWS = 10  # rows in which the age must grow with the step


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    metric = next((m for m in LAGS if view.has(m, 5)), "")
    tolerance = _tolerance(view, limits)
    steps, lag = view.recent(metric) if metric else (view.steps_of(), np.array([]))
    found = (_seldom(metric, steps, lag, tolerance, limits) if metric else None) or _frozen(view, limits)
    if found is not None:
        return Fired(found)
    if not metric:
        steps, versions = view.recent(VERSION, ROWS)
        if not versions.size:
            return NoData((VERSION,), "no rollout of the recent steps carries a policy version")
        return Clear(f"the policy version goes from {fmt(float(versions[0]))} to {fmt(float(versions[-1]))}")
    steps, lag = steps[-ROWS:], lag[-ROWS:]
    stuck = _stuck(metric, steps, lag, limits)
    if stuck is not None:
        return Fired(stuck)
    over = lag > tolerance.value
    top, share = float(lag.max()), float(over.mean())
    where = (int(steps[0]), int(steps[-1]))
    if not over.any():
        return Clear(f"{metric} is at most {fmt(top)} versions over steps {where[0]}-{where[1]}; limit {tolerance}")
    onset = onset_of(view, metric, float(np.nextafter(tolerance.value, np.inf)), np.inf)
    text = (
        f"{metric} is above its tolerance in {100 * share:.0f}% of the rows of steps {where[0]}-{where[1]}, largest "
        f"{fmt(top)} versions; limit {tolerance}"
    )
    evidence = Evidence(metric, text, top, "versions", where, tolerance, ">")
    lasting = share >= limits["lasting_share"].value
    own = tolerance.source is SourceKind.USER
    action = Action.FIX if lasting and own else Action.WATCH
    what = f"rollouts are up to {fmt(top)} policy versions old; the tolerance is {fmt(tolerance.value)}"
    confidence = Confidence.HIGH if own and lasting else Confidence.LOW
    return Fired(Finding(what, action, confidence, onset, (evidence,), "tolerance"))


def _tolerance(view: View, limits: Mapping[str, Threshold]) -> Threshold:
    own = view.config.max_version_lag
    if own is None:
        return limits["tolerance"]
    where = view.config.sources.get("max_version_lag", "the run's own tolerance")
    return Threshold("tolerance", own, "versions", SourceKind.USER, where)


def _frozen(view: View, limits: Mapping[str, Threshold]) -> Finding | None:
    """The rollouts carry one and the same version while the step advances: no statistics are needed."""
    limit = limits["frozen_rows"]
    steps, versions = view.recent(VERSION)
    since = view.frozen_since(VERSION)
    rows = int((steps >= since).sum())
    what_steps = "steps"
    if view.count("grad_norm"):  # a step without an update makes no new version
        what_steps = "steps with an update"
        trained, norm = view.recent("grad_norm")
        rows = int(np.isin(steps[steps >= since], trained[norm > 0]).sum())
    if since < 0 or rows < limit.value or versions.size == 0:
        return None
    text = (
        f"the newest rollouts of {rows} {what_steps}, {since} to {int(steps[-1])}, all carry policy version "
        f"{fmt(float(versions[-1]))}; limit {limit}"
    )
    shown = view.examples("versions", 2)
    evidence = Evidence(VERSION, text, float(rows), limit.unit, (since, int(steps[-1])), limit, ">=", None, shown)
    what = f"the policy version of the rollouts has stood still since step {since} while the step advances"
    return Finding(what, Action.FIX, Confidence.HIGH, Onset(since, since), (evidence,), "stuck")


def _stuck(metric: str, steps: np.ndarray, lag: np.ndarray, limits: Mapping[str, Threshold]) -> Finding | None:
    """The age of the rollouts grows by one per step: the version stands still while the step advances."""
    if lag.size < STUCK_ROWS:
        return None
    steps, lag = steps[-STUCK_ROWS:], lag[-STUCK_ROWS:]
    limit = limits["growth_per_step"]
    growth = np.diff(lag) / np.diff(steps)
    slope = float((lag[-1] - lag[0]) / (steps[-1] - steps[0]))
    if not (bool((growth > 0).all()) and slope > limit.value):
        return None
    where = (int(steps[0]), int(steps[-1]))
    text = (
        f"{metric} grew from {fmt(float(lag[0]))} to {fmt(float(lag[-1]))} versions over steps {where[0]}-{where[1]}, "
        f"{fmt(slope)} per step in every row; limit {limit}"
    )
    began = round(float(steps[-1]) - float(lag[-1]) / slope)
    evidence = Evidence(metric, text, slope, "versions/step", where, limit, ">", float(lag[0]))
    what = f"the sampler has stood still since about step {began}: rollouts get one version older with every step"
    return Finding(what, Action.FIX, Confidence.HIGH, Onset(max(began, 0), where[0]), (evidence,), "stuck")


def _seldom(
    metric: str, steps: np.ndarray, lag: np.ndarray, tolerance: Threshold, limits: Mapping[str, Threshold]
) -> Finding | None:
    """A saw-tooth: the age grows with nearly every step beyond the tolerance, and falls back at each transfer."""
    grows = np.diff(lag) / np.maximum(np.diff(steps), 1) > limits["growth_per_step"].value
    limit = limits["teeth_share"]
    whole = grows.size >= STUCK_ROWS and float(grows.mean()) >= limit.value
    rows = lag.size if whole else min(SAW_ROWS, lag.size)
    steps, lag, grows = steps[-rows:], lag[-rows:], grows[max(grows.size - rows + 1, 0) :]
    falls = int((np.diff(lag) < 0).sum())
    share, top = float(grows.mean()) if grows.size else 0.0, float(lag.max())
    if not falls or grows.size < STUCK_ROWS or share < limit.value or not top > tolerance.value:
        return None
    where = (int(steps[0]), int(steps[-1]))
    text = (
        f"{metric} grew in {share:.0%} of the rows of steps {where[0]}-{where[1]}, up to {fmt(top)} versions, and fell "
        f"back {falls} times; limit {limit}, tolerance {tolerance}"
    )
    evidence = Evidence(metric, text, share, "of rows", where, limit, ">=")
    what = (
        f"the sampler gets new weights only every {top + 1:.0f} steps or so: rollouts are up to {fmt(top)} versions old"
    )
    return Finding(what, Action.FIX, Confidence.HIGH, Onset(where[0], where[0]), (evidence,), "seldom")


CHECK = Check(
    id="Y004",
    name="version-lag",
    family=Family.SYNC,
    fault="Rollouts are sampled by a policy that is too old.",
    why="The update treats rollouts as if the current policy had made them. Beyond the staleness that was chosen on "
    "purpose the update degrades quietly; a lag that grows by one per step means that weight transfer has stopped.",
    needs=Needs(any_of=(*LAGS, VERSION), rows=5),
    thresholds=(
        Threshold(
            "teeth_share",
            0.8,
            "of rows",
            SourceKind.DEFINITION,
            "with a transfer every N steps it grows in 1 - 1/N of them; N of 5 or more is above half the tolerance",
        ),
        Threshold(
            "tolerance",
            8,
            "versions",
            SourceKind.PAPER,
            "ScaleRL 2510.13786 (PipelineRL-8); set max_version_lag for your own",
        ),
        Threshold(
            "lasting_share", 0.25, "of the last 20 rows", SourceKind.CONVENTION, "a single late rollout is no fault"
        ),
        Threshold(
            "frozen_rows",
            10,
            "logged steps",
            SourceKind.DEFINITION,
            "the version counts weight transfers; ten steps without one train on old weights",
        ),
        Threshold(
            "growth_per_step",
            0.9,
            "versions/step",
            SourceKind.DEFINITION,
            "a version that stands still while the step advances ages by one per step",
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Find which samplers miss updates: log the policy version of every rollout", "sync", "check"),
                Remedy("Lower the number of batches in flight", "sync", "lower"),
                Remedy("Turn on the importance correction for stale rollouts", "sync", "set"),
            ),
            verify=(Verify("the lag stays within the tolerance for 20 steps", "version_lag_max", "<", None, 20),),
        ),
        "stuck": Plan(
            remedies=(
                Remedy("Restart the weight transfer and check that the sampler's version advances", "sync", "set"),
                Remedy("Compare a fingerprint of one weight in sampler and trainer after a sync", "sync", "check"),
            ),
            verify=(Verify("the lag stops growing", "version_lag_max", "not rising", None, 20),),
        ),
    },
    leads_to=("Y001", "Y002", "Y003", "U006", "R010", "R014", "K001"),
    look_alikes=(
        LookAlike("A constant lag of 1 in an asynchronous trainer", "within the tolerance"),
        LookAlike("The lag rises once after a long rollout", "not in every one of ten rows"),
        LookAlike("A small lag that is no all-clear", "the counter may advance without a transfer: see the gap checks"),
    ),
    sources=("Why GRPO training fails: stale rollouts", "docs/evidence.md: Healthy bands and their sources"),
)
