"""D010: a vital metric lies outside the band of the user's own healthy runs at the same step."""

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
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt
from rlvitals.checks.signal_common import lasting_onset
from rlvitals.metrics import BASELINE_HIGH, BASELINE_LOW, lookup
from rlvitals.view import View

ROWS = 20  # recent rows that are compared: as many as stand behind each level of the band


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    bands = view.family(BASELINE_LOW)
    if not bands:
        return NotApplicable("no runs of your own were given to compare with (rlvitals check --baseline RUN)")
    names = [n.removeprefix(BASELINE_LOW) for n in bands]
    seen = [_look(view, n, limits["outside_share"]) for n in names]
    known = [s for s in seen if s is not None]
    if not known:
        return NoData(tuple(names), "no recent row has both a value and a band")
    outside = [e for e in known if isinstance(e, Evidence)]
    if not outside:
        return Clear(f"{', '.join(names)}: inside the band of your own runs over the last {ROWS} rows")
    onsets = [_onset(view, e.metric) for e in outside]
    first = min(onsets, key=lambda o: (o.first, o.last))
    summary = f"{', '.join(e.metric for e in outside)} outside the band of your own healthy runs"
    return Fired(Finding(summary, Action.WATCH, Confidence.MEDIUM, first, tuple(outside)))


def _onset(view: View, metric: str) -> Onset:
    """Return where the metric left the band for good."""
    trace, low, high = (view.trace(prefix + metric) for prefix in ("", BASELINE_LOW, BASELINE_HIGH))
    bottom = np.interp(trace.step, low.step, low.value)
    top = np.interp(trace.step, high.step, high.value)
    return lasting_onset(trace, (trace.value < bottom) | (trace.value > top), view.step)


def _look(view: View, metric: str, share: Threshold) -> Evidence | str | None:
    """Return evidence when most of the recent rows and their median lie outside, "" when not, None without data."""
    values = view.rows_of(metric, ROWS)
    low, high = view.rows_of(BASELINE_LOW + metric, ROWS), view.rows_of(BASELINE_HIGH + metric, ROWS)
    keep = np.isfinite(values) & np.isfinite(low) & np.isfinite(high)
    if keep.sum() < ROWS // 2:
        return None
    values, low, high = values[keep], low[keep], high[keep]
    steps = view.steps_of(ROWS)[keep]
    level, bottom, top = (float(np.median(v)) for v in (values, low, high))
    out = float(((values < low) | (values > high)).mean())
    if bottom <= level <= top or out < share.value:
        return ""
    known = lookup(metric)
    unit = known.unit if known is not None else ""
    runs = view.recent("baseline_runs", 1)[1]
    count = f"{int(runs[0])} " if runs.size else ""
    below = level < bottom
    edge = bottom if below else top
    limit = Threshold("band", edge, unit, SourceKind.USER, f"{count}runs of your own, at the same step")
    text = (
        f"{metric} is {fmt(level)} {unit} over steps {int(steps[0])}-{int(steps[-1])}; "
        f"the {count}healthy runs lay between {fmt(bottom)} and {fmt(top)} there"
    )
    return Evidence(metric, text, level, unit, (int(steps[0]), int(steps[-1])), limit, "<" if below else ">")


CHECK = Check(
    id="D010",
    name="outside-own-history",
    family=Family.DATA,
    fault="A vital metric lies outside the band that your own healthy runs kept at the same step.",
    why="What is normal depends on model and task. Several healthy runs of the same setup say it better than any "
    "constant: a run that leaves their band is not sick for that, but something about it is new.",
    needs=Needs(),
    thresholds=(
        Threshold("outside_share", 0.5, "of the recent rows", SourceKind.DEFINITION, "GRPO health-check runbook"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Compare the settings with those of a run of the baseline: rlvitals compare RUN BASELINE"),
                Remedy("If the change is meant, leave that run's band behind: choose the baseline from such runs"),
            ),
            verify=(Verify("the metric lies inside the band again", "", "", None, 20),),
        ),
    },
    look_alikes=(
        LookAlike("A new setup that learns faster or slower", "other checks are clear, the held-out score rises"),
    ),
    patience=2,
    sources=("GRPO health-check runbook",),
)
