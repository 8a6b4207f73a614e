"""S003: the advantages do not average to zero."""

from __future__ import annotations

import math
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
    NotApplicable,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import RECENT
from rlvitals.checks.signal_common import GROUP_BASELINE, centre, lasting_onset, span
from rlvitals.schema import Float64
from rlvitals.view import View


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    estimator = (view.config.advantage_estimator or "").lower()
    if (estimator and estimator not in GROUP_BASELINE) or view.config.algorithm in ("ppo", "reinforce"):
        return NotApplicable(f"{estimator or view.config.algorithm} advantages need not average to zero by group")
    if view.config.masks_truncated:
        return NotApplicable("masked completions leave the mean: the rest of a centred group need not average to zero")
    rows = view.rows_of("advantage_mean")
    at = np.flatnonzero(np.isfinite(rows))[-RECENT:]
    mean, size = rows[at], _advantage_sd(view)[at]
    steps = view.steps_of()[at]
    level, spread = centre(mean), centre(size[np.isfinite(size)])
    each_once = "advantage_mean" in view.trainer.sequence_means
    bound = 0.0 if each_once else spread * _length_spread(view, at)
    if not (math.isfinite(spread) and spread > 0):
        spread = 1.0  # unknown, or every advantage has one sign, which centring excludes: the unit of scaled advantages
    proven = math.isfinite(bound)
    limit = limits["offset"] if proven else limits["offset_unknown"]
    allowed = limit.value * spread + (bound if proven else 0.0)
    same_sign = float(np.mean(np.sign(mean) == math.copysign(1.0, level)))
    shown = f"the mean advantage is {level:.3g} over steps {int(steps[0])}-{int(steps[-1])}, spread {spread:.3g}"
    why = (
        "this trainer's mean counts each completion once"
        if each_once
        else f"a token-weighted mean can differ from 0 by at most {bound:.3g} at these lengths"
        if proven
        else "a token-weighted mean can differ from 0 with the lengths, which are not logged"
    )
    if abs(level) <= allowed or same_sign < limits["same_sign"].value:
        return Clear(f"{shown}; {why}; limit {allowed:.3g}")
    evidence = Evidence(
        metric="advantage_mean",
        text=f"{shown}, where centring by group gives 0; {why}; limit {limit}",
        observed=abs(level),
        unit="advantage",
        steps=span(steps),
        threshold=limit,
        comparison=">",
        before=0.0,
    )
    trace = view.trace("advantage_mean")
    hit = np.abs(trace.value) > allowed
    onset = lasting_onset(trace, hit, int(steps[0]))
    action, confidence = (Action.FIX, Confidence.HIGH) if proven else (Action.WATCH, Confidence.MEDIUM)
    summary = f"the advantages average {level:.3g} and not 0: they are not centred within their groups"
    return Fired(Finding(summary, action, confidence, onset, (evidence,)))


def _advantage_sd(view: View) -> Float64:
    """Return the std of the advantages per row, or its largest possible value given their extremes (mean 0)."""
    sd = view.rows_of("advantage_std")
    low, high = view.rows_of("advantage_min"), view.rows_of("advantage_max")
    with np.errstate(invalid="ignore"):
        widest = np.sqrt(np.maximum(high, 0.0) * np.maximum(-low, 0.0))
    return np.where(np.isfinite(sd), sd, widest)


def _length_spread(view: View, at: np.ndarray) -> float:
    """Return the largest std of the lengths over their mean (median of the rows), NaN where lengths are not logged.

    A token-weighted mean of centred advantages is Cov(length, A) / mean length, at most sd(A) sd(length) / mean length.
    """
    mean, sd = view.rows_of("length_mean")[at], view.rows_of("length_std")[at]
    low, high = view.rows_of("length_min")[at], view.rows_of("length_max")[at]
    with np.errstate(invalid="ignore", divide="ignore"):
        widest = np.sqrt(np.maximum(high - mean, 0.0) * np.maximum(mean - low, 0.0))
        ratio = np.where(np.isfinite(sd), sd, widest) / mean
    return centre(ratio[np.isfinite(ratio)])


CHECK = Check(
    id="S003",
    name="advantage-not-centred",
    family=Family.SIGNAL,
    fault="The advantages do not average to zero, as subtracting each group's mean would make them.",
    why="The group mean is the baseline of GRPO. Without it all rollouts of easy prompts are pushed up and all of hard "
    "ones down. A mean of 0 is no proof of the reverse: merged, misordered or batch-normalised groups have it too.",
    needs=Needs(all_of=("advantage_mean",), rows=10),
    thresholds=(
        Threshold(
            "offset", 0.02, "of the advantages' std", SourceKind.DEFINITION, "sequence mean 0; 0.02 covers printing"
        ),
        Threshold(
            "offset_unknown", 0.5, "of the advantages' std", SourceKind.CONVENTION, "above any token mean seen (0.13)"
        ),
        Threshold("same_sign", 0.9, "share of rows", SourceKind.CONVENTION, "an offset keeps its sign, noise does not"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Recompute the advantages of one step from its rewards, by prompt id, and compare", "", "check"),
                Remedy("Check the baseline: group mean and not a constant, a batch mean or none", "", "check"),
            ),
            verify=(Verify("the mean advantage is 0 within 0.02", "advantage_mean", "<", 0.02, 10),),
        ),
    },
    leads_to=("R010", "U002", "L002", "L003"),
    look_alikes=(
        LookAlike(
            "A token-weighted mean, as verl logs it: longer answers weigh more",
            "it stays within spread of advantages times relative spread of lengths",
        ),
        LookAlike("Baselines that are not the group mean: OPO, REINFORCE++, GAE", "the configured estimator"),
    ),
    patience=2,
    sources=(
        "GRPO health-check runbook: step 1",
        "docs/false-alarms.md: 12",
        "docs/false-alarms.md: 13",
        "docs/evidence.md: Finite-group law",
    ),
)
