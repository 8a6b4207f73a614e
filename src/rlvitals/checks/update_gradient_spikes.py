"""U002: the gradient norm spikes far above its own level."""

from __future__ import annotations

import math
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
    Onset,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import RECENT
from rlvitals.checks.signal_common import centre, span, tied_groups
from rlvitals.schema import Float64, Int64
from rlvitals.store import WINDOW
from rlvitals.view import View

MIN_ROWS = 30
ALL_TIED = 0.999  # a printed share of 1.000
SETTLE = 10  # first rows left out of the judgement: the first gradients are large in healthy runs


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    steps, norms = _with_signal(view)
    if norms.size < MIN_ROWS:
        return Clear(
            f"{norms.size} rows with a mixed group and a gradient above 0; {MIN_ROWS} are needed to spike from"
        )
    base = _baseline(view, norms)
    factor, share = limits["spike_factor"], limits["spike_share"]
    now_steps, now = _recent(view, steps, norms)
    hit = now > factor.value * base
    seen = float(hit.mean()) if hit.size else 0.0
    shown = (
        f"{int(hit.sum())} of the last {hit.size} gradient norms are above {factor.value:g} times the run's own "
        "level of "
        f"{base:.3g}"
    )
    if seen <= share.value or hit.sum() < 3:
        return Clear(f"{shown}; limit {share}")
    spikes = _series_of_spikes(steps, norms > factor.value * base)
    evidence = [
        Evidence(
            metric="grad_norm",
            text=f"{shown}, the largest {float(now.max()):.3g}, since step {int(spikes[0])}; limit {share}",
            observed=seen,
            unit="share of rows",
            steps=span(now_steps),
            threshold=share,
            comparison=">",
            before=base,
        )
    ]
    harm = _harm(view, int(spikes[0]), limits)
    if harm is not None:
        evidence.append(harm)
    action, confidence = (Action.ADJUST, Confidence.HIGH) if harm is not None else (Action.WATCH, Confidence.MEDIUM)
    summary = f"the gradient norm spikes to {float(now.max()):.3g}, {float(now.max()) / base:.0f} times its own level"
    if harm is not None:
        summary += ", and " + ("the reward falls" if harm.metric == "reward_mean" else "the policy is thrown off")
    onset = Onset(int(spikes[0]), int(spikes[0]))
    return Fired(Finding(summary, action, confidence, onset, tuple(evidence)))


def _series_of_spikes(steps: Int64, hit: np.ndarray) -> Int64:
    """Return the steps of the spikes that belong together: no two neighbours further apart than half a window."""
    at = np.flatnonzero(hit)
    breaks = np.flatnonzero(np.diff(at) > RECENT // 2)
    return steps[at[breaks[-1] + 1 if breaks.size else 0 :]]


def _with_signal(view: View) -> tuple[Int64, Float64]:
    """Return the rows with a gradient above 0, without those in which every group was tied.

    Tied rows have the small gradient of a KL term or none; beside them every row with signal would look like a spike.
    """
    steps, norms = view.recent("grad_norm")
    keep = norms > 0
    tied = tied_groups(view, WINDOW)
    if tied is not None:
        keep &= ~np.isin(steps, tied.steps[tied.values >= ALL_TIED])
    return steps[keep], norms[keep]


def _baseline(view: View, norms: Float64) -> float:
    """Return the run's own level: the higher of its early median and the median of the rows with signal."""
    early = view.head("grad_norm")[SETTLE:]
    levels = [centre(early[early > 0]), centre(norms)]
    return max(level for level in levels if math.isfinite(level))


def _recent(view: View, steps: Int64, norms: Float64) -> tuple[Int64, Float64]:
    """Return the last rows, without the run's first ones."""
    keep = min(RECENT, max(view.count("grad_norm") - SETTLE, 0))
    return steps[-keep:] if keep else steps[:0], norms[-keep:] if keep else norms[:0]


def _harm(view: View, since: int, limits: Mapping[str, Threshold]) -> Evidence | None:
    """Return the second signal: the reward fell after the first spike, or the KL to the reference jumped."""
    steps, reward = view.recent("reward_mean")
    early, late = reward[steps < since], reward[steps >= since]
    fall = stats.change(early, late, z=limits["fall_z"].value)
    if early.size >= 10 and late.size >= 10 and fall.high < 0:
        return Evidence(
            metric="reward_mean",
            text=f"the reward falls from {fall.early:.4g} to {fall.late:.4g} after step {since}, beyond "
            f"{limits['fall_z']} of its noise",
            observed=fall.late,
            unit="reward",
            steps=(int(steps[0]), int(steps[-1])),
            threshold=limits["fall_z"],
            comparison="<",
            before=fall.early,
        )
    if not view.has("kl_ref", MIN_ROWS):
        return None
    steps, kl = view.recent("kl_ref")
    before, after = centre(np.abs(kl[steps < since])), centre(np.abs(kl[steps >= since]))
    factor = limits["kl_factor"]
    if before > 0 and after > factor.value * before and after > 0.5:
        return Evidence(
            metric="kl_ref",
            text=f"the KL to the reference steps from {before:.3g} to {after:.3g} with the spikes; limit {factor}",
            observed=after / before,
            unit="x",
            steps=(int(steps[0]), int(steps[-1])),
            threshold=factor,
            comparison=">",
            before=before,
        )
    return None


CHECK = Check(
    id="U002",
    name="gradient-spikes",
    family=Family.UPDATE,
    fault="The gradient norm spikes again and again far above its own level.",
    why="A few outliers are usual and clipped away. Many mean that single samples dominate the update: exploding "
    "ratios, "
    "summed losses over long answers, a learning rate that overshoots. No level is universal, it depends on loss, "
    "length "
    "and engine; only the run's own median is a measure.",
    needs=Needs(all_of=("grad_norm",), rows=MIN_ROWS),
    thresholds=(
        Threshold("spike_factor", 10, "x", SourceKind.MEASURED, "docs/measurements.md: Gradient spikes"),
        Threshold("spike_share", 0.08, "share of rows", SourceKind.MEASURED, "docs/measurements.md: Gradient spikes"),
        Threshold("fall_z", 3.5, "z", SourceKind.MEASURED, "docs/measurements.md: Change of level under AR(1) noise"),
        Threshold("kl_factor", 10, "x", SourceKind.MEASURED, "docs/measurements.md: Gradient spikes"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Lower the learning rate", "learning_rate", "lower"),
                Remedy("Lower the limit of the gradient norm", "max_grad_norm", "lower"),
                Remedy("Look at the samples of the spike steps: long, masked or off-policy ones dominate", "", "check"),
            ),
            verify=(Verify("no gradient norm above ten times the median over 50 steps", "grad_norm", "", None, 50),),
            rollback=Rollback.CURRENT,
        ),
    },
    leads_to=("K001", "R002", "R014", "E002", "D001"),
    look_alikes=(
        LookAlike("A norm of 1200 with a clip limit of 0.5: logged before clipping", "its own median"),
        LookAlike("Single outliers in 1 to 2% of the steps", "more than 8% of the last 50 rows"),
        LookAlike("Large gradients in the first steps", "the first ten rows are left out"),
    ),
    patience=2,
    sources=(
        "docs/false-alarms.md: 24",
        "docs/false-alarms.md: 25",
        "docs/false-alarms.md: 26",
        "docs/measurements.md: Gradient norm has no level",
    ),
)
