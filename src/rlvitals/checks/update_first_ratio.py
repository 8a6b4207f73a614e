"""U005: the importance ratio is not 1 although the only update of a batch is made by the policy that sampled it."""

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
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import RECENT
from rlvitals.checks.config_common import SEQUENCE_LEVELS
from rlvitals.checks.signal_common import centre, lasting_onset, span
from rlvitals.view import View

MIN_ROWS = 3


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    config = view.config
    first = _first_minibatch(view, limits["first_ratio_error"])
    if first is not None:
        return first
    if config.updates_per_rollout is None:
        return NoData(("first_ratio_error", "updates_per_rollout"), "how many updates a row holds is unknown")
    if config.updates_per_rollout > 1:
        return NotApplicable(f"{config.updates_per_rollout:g} updates per rollout batch: only the first has ratio 1")
    if config.asynchronous or (config.max_version_lag or 0) > 0:
        return NotApplicable("asynchronous training: rollouts come from older weights by design")
    found = []
    seen = []
    for metric, limit, centre_at in (
        ("clip_frac", limits["clip_frac"], 0.0),
        ("kl_old_new", limits["kl_old_new"], 0.0),
        ("ratio_mean", limits["ratio_mean"], 1.0),
    ):
        if metric == "clip_frac" and config.importance_level in SEQUENCE_LEVELS:
            continue  # a sequence clip range of 4e-4 is within numerics
        steps, values = view.recent(metric)
        steps, values = steps[-RECENT:], values[-RECENT:]
        if values.size < MIN_ROWS:
            continue
        level = centre(np.abs(values - centre_at))
        seen.append(f"{metric} {centre(values):.3g} (limit {limit})")
        if level > limit.value:
            found.append(
                Evidence(
                    metric=metric,
                    text=f"{metric} is {centre(values):.3g} (median of steps {span(steps)[0]}-{span(steps)[1]}); "
                    "with one "
                    f"update per rollout batch it is {centre_at:g} by construction; limit {limit}",
                    observed=level,
                    unit=limit.unit,
                    steps=span(steps),
                    threshold=limit,
                    comparison=">",
                    before=centre_at,
                )
            )
    if not seen:
        return NoData(("clip_frac", "kl_old_new", "ratio_mean"))
    if not found:
        return Clear("the ratio of the only update is 1 within numerics: " + ", ".join(seen))
    trace = view.trace(found[0].metric)
    middle = 1.0 if found[0].metric == "ratio_mean" else 0.0
    limit = found[0].threshold or limits["clip_frac"]
    onset = lasting_onset(trace, np.abs(trace.value - middle) > limit.value, found[0].steps[0])
    summary = "the importance ratio is not 1 in the only update of a batch: two log-probability passes disagree"
    return Fired(Finding(summary, Action.ADJUST, Confidence.HIGH, onset, tuple(found)))


def _first_minibatch(view: View, limit: Threshold) -> Outcome | None:
    """Judge the ratio of the first minibatch itself where it is logged: 1 whatever the number of updates."""
    steps, values = view.recent("first_ratio_error")
    steps, values = steps[-RECENT:], values[-RECENT:]
    if values.size < MIN_ROWS:
        return None
    level = centre(values)
    shown = f"the ratio of the first minibatch is up to {level:.3g} away from 1 (median of steps "
    shown += f"{span(steps)[0]}-{span(steps)[1]})"
    if level <= limit.value:
        return Clear(f"{shown}; limit {limit}")
    text = f"{shown}, before any update has changed the policy; limit {limit}"
    evidence = Evidence("first_ratio_error", text, level, limit.unit, span(steps), limit, ">", 0.0)
    trace = view.trace("first_ratio_error")
    onset = lasting_onset(trace, trace.value > limit.value, span(steps)[0])
    summary = (
        "the importance ratio is not 1 before the first update of a step: the old policy is not the one that updates"
    )
    return Fired(Finding(summary, Action.FIX, Confidence.HIGH, onset, (evidence,), "first minibatch"))


CHECK = Check(
    id="U005",
    name="first-ratio-not-one",
    family=Family.UPDATE,
    fault="The importance ratio is not 1 although the policy that sampled makes the only update of the batch.",
    why="With one update per rollout batch old and new log-probabilities come from the same weights, so their "
    "ratio is 1 "
    "and nothing clips. A difference means that the two passes do not compute the same thing: another micro-batch "
    "size, "
    "dropout, temperature or precision. Tokens are then clipped that never moved.",
    needs=Needs(any_of=("first_ratio_error", "clip_frac", "kl_old_new", "ratio_mean"), rows=MIN_ROWS),
    thresholds=(
        Threshold(
            "clip_frac", 0.002, "fraction", SourceKind.DEFINITION, "0 by construction; numerics reach about 0.001"
        ),
        Threshold("kl_old_new", 0.003, "nats/token", SourceKind.DEFINITION, "0 by construction; numerics reach 0.001"),
        Threshold("ratio_mean", 0.01, "ratio", SourceKind.DEFINITION, "1 by construction"),
        Threshold(
            "first_ratio_error",
            0.2,
            "ratio",
            SourceKind.DEFINITION,
            "0 by construction; at the usual clip range of 0.2 tokens are clipped that never moved",
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Set the micro-batch sizes of the two log-probability passes equal", "micro_batch", "set"),
                Remedy("Switch off dropout, and use one temperature and one precision in both passes", "", "check"),
                Remedy("Log the largest log-ratio of the first minibatch: it must be 0", "", "check"),
            ),
            verify=(Verify("the clip fraction is below 0.001 where a batch is used once"),),
        ),
        "first minibatch": Plan(
            remedies=(
                Remedy(
                    "Recompute the old log-probabilities from the present weights once per rollout batch", "", "set"
                ),
                Remedy("Switch off dropout, and use one temperature and one precision in both passes", "", "check"),
            ),
            verify=(Verify("the first ratio is 1 within 0.05", "first_ratio_error", "<", 0.05, 10),),
        ),
    },
    leads_to=("U010", "U002", "U003", "R010"),
    look_alikes=(
        LookAlike("A clip fraction of 0.001 from kernels that depend on the batch size", "limit 0.002"),
        LookAlike("Several updates per batch, or asynchronous rollouts", "the configuration"),
    ),
    sources=(
        "docs/evidence.md: What no curve shows",
        "docs/false-alarms.md: 11",
        "docs/false-alarms.md: 40",
        "verl#6280",
    ),
)
