"""The series that measure how far sampler and trainer disagree on the same tokens, with the level each may have."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from rlvitals import stats
from rlvitals.check import Evidence, SourceKind, Threshold
from rlvitals.checks import course
from rlvitals.checks.common import fmt
from rlvitals.view import View

GAPS = ("logprob_gap_mean", "prob_gap_mean", "kl_sampler_trainer")
QUADRATIC = ("kl_sampler_trainer",)  # k2 and k3 grow with the square of the log-probability gap

LEVELS: tuple[Threshold, ...] = (
    Threshold(
        "logprob_gap_mean",
        0.05,
        "nats",
        SourceKind.MEASURED,
        "docs/measurements.md: Sampler and trainer numerics (dense bf16: 0.005 to 0.03)",
    ),
    Threshold("prob_gap_mean", 0.01, "probability", SourceKind.PAPER, "verl documentation: above 0.01 is a problem"),
    Threshold(
        "kl_sampler_trainer",
        0.01,
        "nats/token",
        SourceKind.MEASURED,
        "docs/measurements.md: Sampler and trainer numerics (dense bf16, k3: 3e-4 to 2e-3)",
    ),
)
WEIGHTS_ESS = Threshold(
    "effective_sample_frac",
    0.3,
    "of the batch",
    SourceKind.PAPER,
    "verl rollout correction documentation: at least 0.3",
)
CORRELATION = Threshold(
    "sampler_corr",
    0.98,
    "correlation",
    SourceKind.CONVENTION,
    "about 0.998 is reported; ten times further off is judgement",
)


def logged(view: View, rows: int) -> Iterator[str]:
    """Yield the gap metrics with at least this many values."""
    for metric in GAPS:
        if view.has(metric, rows):
            yield metric


def scaled(metric: str, factor: float) -> float:
    """Return a factor on the log-probability gap as a factor on this metric."""
    return factor**2 if metric in QUADRATIC else factor


def expected_lag(view: View) -> bool:
    """True when rollouts are older than the policy on purpose, so that a gap is expected."""
    if view.config.asynchronous:
        return True
    _, lag = view.recent("version_lag_mean", 50)
    return bool(lag.size and stats.median(lag) >= 1.0)


def follows_entropy(view: View, ratio: float) -> bool:
    """True when entropy has grown about as much: surer and less sure tokens differ by more anyway."""
    if not view.has("entropy", 6):
        return False
    grown = course.level(view, "entropy").ratio
    return math.isfinite(grown) and grown > 0.5 * ratio


def second_signals(view: View, limits: Mapping[str, Threshold]) -> tuple[Evidence, ...]:
    """Return what else shows the disagreement: correlation below its limit, few effective samples."""
    out = []
    for metric in ("sampler_corr", "effective_sample_frac"):
        limit = limits.get(metric)
        if limit is None or not view.has(metric, 3):
            continue
        level = course.level(view, metric)
        if level.now < limit.value:
            where = f"steps {level.first}-{level.last}"
            text = f"{metric} is {fmt(level.now)} over {where}, {fmt(level.start)} at the start"
            out.append(
                Evidence(metric, f"{text}; limit {limit}", level.now, limit.unit, level.steps, limit, "<", level.start)
            )
    return tuple(out)
