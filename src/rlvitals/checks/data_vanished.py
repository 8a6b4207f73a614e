"""D004: a metric that was logged all along is no longer there."""

from __future__ import annotations

from collections.abc import Mapping

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
from rlvitals.schema import NONFINITE_PREFIX
from rlvitals.view import View

VITAL = (
    "reward_mean",
    "reward_std",
    "zero_variance_frac",
    "advantage_std",
    "truncated_frac",
    "length_mean",
    "entropy",
    "loss",
    "grad_norm",
    "learning_rate",
    "clip_frac",
    "kl_ref",
)
"""Metrics that a trainer logs at every step or never; components and data sources may come and go."""
MIN_VALUES = 20
MIN_SILENCE = 20  # rows' worth of steps


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    known = [m for m in VITAL if view.count(m, raw=True) >= MIN_VALUES]
    if not known:
        return NoData(("reward_mean",), f"no metric with {MIN_VALUES} values to miss")
    limit = limits["silence"]
    gone: list[tuple[str, int, float]] = []
    longest = 0.0
    for metric in known:
        first, last = view.first_seen(metric), view.last_seen(metric)
        bad = NONFINITE_PREFIX + metric
        if view.count(bad) and view.last_seen(bad) > last:
            continue  # logged, but not a number: another check's finding
        spacing = max((last - first) / (view.count(metric, raw=True) - 1), _row_spacing(view))
        silence = (view.step - last) / spacing
        longest = max(longest, silence)
        if silence > max(limit.value, MIN_SILENCE):
            gone.append((metric, last, silence))
    if not gone:
        return Clear(
            f"all of {len(known)} vital metrics are still logged; the longest silence is {longest:.3g} times a "
            f"metric's own spacing; limit {limit}"
        )
    gone.sort(key=lambda g: (g[1], g[0]))
    evidence = tuple(
        Evidence(
            metric=metric,
            text=f"{metric} was logged {view.count(metric, raw=True)} times and not once after step {last}, "
            f"{silence:.0f} times its usual spacing; limit {limit}",
            observed=silence,
            unit="times its own spacing",
            steps=(last, view.step),
            threshold=limit,
            comparison=">",
        )
        for metric, last, silence in gone[:4]
    )
    names = ", ".join(m for m, _, _ in gone[:4]) + (" ..." if len(gone) > 4 else "")
    since = gone[0][1]
    summary = f"{names} stopped being logged after step {since}: what they would show since then is unknown"
    return Fired(Finding(summary, Action.WATCH, Confidence.HIGH, Onset(since, since), evidence))


def _row_spacing(view: View) -> float:
    return max((view.step - view.first_step) / max(view.rows - 1, 1), 1e-9)


CHECK = Check(
    id="D004",
    name="metric-vanished",
    family=Family.DATA,
    fault="A metric that was logged all along is no longer there.",
    why="A chart that ends looks like a chart that is fine. Trackers drop keys, trainers stop writing a metric when a "
    "branch is skipped, and every check that reads it goes blind without a word.",
    needs=Needs(),
    thresholds=(
        Threshold(
            "silence", 20, "times its own spacing", SourceKind.DEFINITION, "a metric logged at every step is missing"
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Look into the trainer's raw history: a panel filter hides a series that is still written",
                    "",
                    "check",
                ),
                Remedy(
                    "Find what changed at that step: resume, new version, a code path that skips the metric",
                    "",
                    "check",
                ),
            ),
            verify=(Verify("the metric is in the next 20 rows", "", "", None, 20),),
        ),
    },
    look_alikes=(
        LookAlike("A metric that is only logged at evaluations", "its silence is short beside its own spacing"),
        LookAlike("A value that became NaN", "the row is there and not finite: non-finite-values"),
        LookAlike("Panels missing in the tracker's page", "the raw history has the values"),
    ),
    sources=("docs/false-alarms.md: 39",),
)
