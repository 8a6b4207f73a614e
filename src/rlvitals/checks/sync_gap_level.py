"""Y002: sampler and trainer disagree by more than numerics explain."""

from __future__ import annotations

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
    Outcome,
    Plan,
    Remedy,
    Threshold,
    Verify,
)
from rlvitals.checks import companions, sampler_gap
from rlvitals.checks.common import fmt, onset_of, start
from rlvitals.view import View

ROWS = 20  # recent values whose median is judged


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    seen = []
    for metric in sampler_gap.logged(view, 10):
        steps, values = view.recent(metric)
        steps, values = steps[-ROWS:], np.abs(values[-ROWS:])
        now, limit, where = stats.median(values), limits[metric], (int(steps[-values.size]), int(steps[-1]))
        seen.append(f"{metric} is {fmt(now)} over steps {where[0]}-{where[1]}; limit {limit}")
        if now > limit.value:
            return Fired(_finding(view, metric, now, where, limits))
    return Clear("; ".join(seen))


def _finding(view: View, metric: str, now: float, where: tuple[int, int], limits: Mapping[str, Threshold]) -> Finding:
    limit, began = limits[metric], start(view, metric)
    span = f"steps {where[0]}-{where[1]}"
    text = f"{metric} is {fmt(now)} {limit.unit} over {span}, {fmt(began)} at the start; limit {limit}"
    first = Evidence(metric, text, now, limit.unit, where, limit, ">", began)
    onset = onset_of(view, metric, limit.value, float("inf"), center="median")
    what = f"sampler and trainer disagree by {fmt(now)} {limit.unit} ({metric})"
    worse, weights = companions.worse(view), sampler_gap.second_signals(view, limits)
    if worse and weights:
        text = f"{what}, and the policy got worse"
        return Finding(text, Action.ADJUST, Confidence.HIGH, onset, (first, *weights, *worse))
    caution = "; mixture-of-experts models reach 0.4 nats by routing alone" if metric == "logprob_gap_mean" else ""
    confidence = Confidence.MEDIUM if weights else Confidence.LOW
    return Finding(what + caution, Action.WATCH, confidence, onset, (first, *weights))


CHECK = Check(
    id="Y002",
    name="logprob-gap-level",
    family=Family.SYNC,
    fault="Sampler and trainer compute clearly different probabilities for the same tokens.",
    why="Rollouts are then drawn from another policy than the one that is updated. Part of it is "
    "numerical and harmless; "
    "beyond that it biases the gradient and has ended runs even at small size. Healthy levels depend on model and "
    "engine, so the level alone is only worth a look.",
    needs=Needs(any_of=sampler_gap.GAPS, rows=10),
    thresholds=(*sampler_gap.LEVELS, sampler_gap.CORRELATION, sampler_gap.WEIGHTS_ESS, companions.REWARD_DROP_Z),
    judge=judge,
    patience=2,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Check that temperature, top-p and log-prob mode are the same on both sides", "temperature", "check"
                ),
                Remedy(
                    "Compare one batch scored by both sides at the same weights: numerics or stale weights",
                    "sync",
                    "check",
                ),
                Remedy("Turn on the documented importance correction (token level, truncated at 2)", "sync", "set"),
            ),
            verify=(Verify("the gap falls below its limit", "logprob_gap_mean", "<", 0.05, 20),),
        )
    },
    leads_to=("U005", "U006", "R014", "H002"),
    look_alikes=(
        LookAlike("0.005 to 0.03 nats in a dense bf16 model", "below the limit: numerics"),
        LookAlike(
            "A mixture of experts: 0.1 to 0.4 nats by routing", "watch only, unless the policy gets worse as well"
        ),
        LookAlike(
            "A gap at a temperature other than 1", "raw and scaled log-probabilities are compared, or masked tokens"
        ),
        LookAlike("A signed mean near 0", "a signed mean cancels; it is no proof of agreement"),
    ),
    sources=(
        "docs/measurements.md: Sampler and trainer numerics",
        "docs/false-alarms.md: 30",
        "docs/false-alarms.md: 31",
        "docs/false-alarms.md: 32",
        "arXiv 2510.11370",
    ),
)
