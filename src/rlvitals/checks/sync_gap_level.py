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
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import companions, sampler_gap
from rlvitals.checks.common import fmt, onset_of, start
from rlvitals.view import View

ROWS = 20  # recent values whose median is judged
MOST_OF = {"prob_gap_mean": "prob_gap_max"}  # a largest log-probability gap says nothing: 20 to 98 in healthy runs


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
    bounded = _bounded(view, metric, now, limits)
    if bounded is not None:
        text = (
            f"{what} from the first step on, and no token by much: other settings (top-p, temperature) more likely "
            "than numerics"
        )
        return Finding(text, Action.ADJUST, Confidence.MEDIUM, onset, (first, bounded, *weights))
    caution = "; mixture-of-experts models reach 0.4 nats by routing alone" if metric == "logprob_gap_mean" else ""
    confidence = Confidence.MEDIUM if weights else Confidence.LOW
    return Finding(what + caution, Action.WATCH, confidence, onset, (first, *weights))


def _bounded(view: View, metric: str, now: float, limits: Mapping[str, Threshold]) -> Evidence | None:
    """Return the evidence that the largest gap is small beside the mean one, None where it isn't or isn't logged.

    A sampler with other settings moves the probability of every token a little: at top-p by the mass that is left out
    at most. Rounding, routing and old weights leave most tokens alone and turn a few around.
    """
    largest = MOST_OF.get(metric)
    if largest is None or not view.has(largest, 10) or view.first_seen(metric) != view.first_step:
        return None
    if not abs(float(view.head(metric)[0])) > limits[metric].value:
        return None  # not there from the start: the weights, not the settings
    steps, values = view.recent(largest)
    steps, values = steps[-ROWS:], np.abs(values[-ROWS:])
    most, limit, spread = stats.median(values), limits["gap_most"], limits["gap_spread"]
    if not (most < limit.value and most < spread.value * now):
        return None
    text = (
        f"{largest} is {fmt(most)} over the same steps (limit {limit}), {fmt(most / now)} times the mean (limit "
        f"{spread}); it has been there since the first step"
    )
    return Evidence(largest, text, most / now, spread.unit, (int(steps[0]), int(steps[-1])), spread, "<")


_SPREAD = "docs/measurements.md: Gaps of settings and of weights"
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
    thresholds=(
        *sampler_gap.LEVELS,
        sampler_gap.CORRELATION,
        sampler_gap.WEIGHTS_ESS,
        Threshold("gap_most", 0.5, "probability", SourceKind.MEASURED, _SPREAD),
        Threshold("gap_spread", 20, "times the mean gap", SourceKind.MEASURED, _SPREAD),
        companions.REWARD_DROP_Z,
    ),
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
    leads_to=("U005", "U006", "Y006", "R014", "K001", "H002"),
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
