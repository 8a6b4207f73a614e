"""K004: the logged or optimised KL estimate cannot mean what it is taken for."""

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
    NotApplicable,
    Onset,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import companions, course, entropy_runaway
from rlvitals.checks.common import fmt
from rlvitals.view import View

NEVER_NEGATIVE = ("k2", "k3", "exact")
RECENT_ROWS = 30
NEGATIVE_Z = 4.0  # standard errors of the mean below zero
RUNAWAY = {t.name: t for t in entropy_runaway.CHECK.thresholds}


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    if view.config.kl_coef == 0 and not view.has("kl_ref"):
        return NotApplicable("the KL coefficient is 0 and no KL is logged")
    for look in (_negative, _summed, _k1_loss, _wrong_distribution):
        found = look(view, limits)
        if found is not None:
            return Fired(found)
    level = course.level(view, "kl_ref")
    low, _, high, _ = view.extremes("kl_ref")
    return Clear(
        f"KL to the reference is {fmt(level.now)} nats now, between {fmt(low)} and {fmt(high)} over the run; "
        f"estimator {view.config.kl_estimator or 'unknown'}"
    )


def _negative(view: View, limits: Mapping[str, Threshold]) -> Finding | None:
    """A k2, k3 or exact estimate that is negative."""
    estimator, limit = view.config.kl_estimator or "", limits["negative"]
    low, step, _, _ = view.extremes("kl_ref")
    if estimator not in NEVER_NEGATIVE or view.config.kl_in_reward or not low < limit.value:
        return None
    text = (
        f"kl_ref is {fmt(low)} nats at step {step}, but the configured estimator {estimator} is never negative; "
        f"limit {limit}"
    )
    evidence = Evidence("kl_ref", text, low, "nats", (step, step), limit, "<", 0.0)
    what = f"the logged KL is negative ({fmt(low)} nats), which the configured estimator {estimator} cannot be"
    return Finding(what, Action.WATCH, Confidence.MEDIUM, Onset(step, step), (evidence,), "negative")


def _summed(view: View, limits: Mapping[str, Threshold]) -> Finding | None:
    """A loss term that is the coefficient times the KL times the completion length: a sum over tokens."""
    rows = [view.rows_of(m, RECENT_ROWS) for m in ("kl_loss", "kl_ref", "length_mean")]
    loss, kl, length = rows
    coefficient = view.rows_of("kl_coef", RECENT_ROWS)
    coefficient = np.where(np.isfinite(coefficient), coefficient, view.config.kl_coef or np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = loss / (coefficient * kl)
        ratio = factor / length
    ratio = ratio[np.isfinite(ratio) & np.isfinite(factor) & (length > 20)]
    limit = limits["sum_ratio"]
    if ratio.size < 10 or not 1 / limit.value < stats.median(ratio) < limit.value:
        return None
    if float(np.quantile(ratio, 0.9)) > 2 * limit.value:
        return None
    where = (int(view.steps_of(RECENT_ROWS)[0]), view.step)
    text = (
        f"the KL term of the loss is {fmt(stats.median(ratio))} times coefficient x KL per token "
        f"x completion length "
        f"over the last {ratio.size} rows: it sums over tokens instead of averaging; limit {limit}"
    )
    evidence = Evidence("kl_loss", text, stats.median(ratio), "times", where, limit, "<")
    what = "the KL term of the loss is a sum over tokens, so it grows with the answer's length"
    return _with_second_signal(view, what, evidence, "summed")


def _k1_loss(view: View, limits: Mapping[str, Threshold]) -> Finding | None:
    """k1, alone or summed, as a loss term: its expected gradient on policy is zero."""
    estimator, coefficient = view.config.kl_estimator or "", view.config.kl_coef
    if coefficient is None and view.has("kl_loss"):
        coefficient = math.inf  # unknown, but the logged term is not zero
    if "k1" not in estimator or view.config.kl_in_reward or not coefficient or not coefficient > 0:
        return None
    limit = limits["k1_coefficient"]
    first = max(view.first_step, 0)
    known = f"with coefficient {fmt(coefficient)}" if math.isfinite(coefficient) else "and is not zero"
    text = (
        f"the KL term of the loss uses the estimator {estimator} {known}; its expected gradient on policy is 0, and on "
        f"reused rollouts it only pushes sampled tokens down; limit {limit}"
    )
    observed = coefficient if math.isfinite(coefficient) else abs(course.level(view, "kl_loss").now)
    evidence = Evidence("kl_loss", text, observed, "coefficient", (first, view.step), limit, ">", 0.0)
    what = f"the KL term ({estimator} as a loss) cannot hold the policy"
    return _with_second_signal(view, what, evidence, "k1 as loss")


def _with_second_signal(view: View, what: str, first: Evidence, variant: str) -> Finding:
    onset = Onset(max(view.first_step, 0), max(view.first_step, 0))
    worse = companions.worse(view)
    if worse and view.has("entropy", 20) and entropy_runaway.has_run_away(view, RUNAWAY):
        level = course.level(view, "entropy")
        text = f"entropy went from {fmt(level.start)} at the start to {fmt(level.now)} nats/token"
        also = Evidence("entropy", text, level.now, "nats/token", level.steps, None, "", level.start)
        full = f"{what}, and entropy ran away while the policy got worse"
        return Finding(full, Action.FIX, Confidence.HIGH, onset, (first, also, *worse), variant)
    if worse:
        full = f"{what}, and the policy got worse"
        return Finding(full, Action.ADJUST, Confidence.MEDIUM, onset, (first, *worse), variant)
    return Finding(what, Action.WATCH, Confidence.MEDIUM, onset, (first,), variant)


def _wrong_distribution(view: View, limits: Mapping[str, Threshold]) -> Finding | None:
    """A signed estimate that is clearly and lastingly negative: samples come from another distribution."""
    steps, values = view.recent("kl_ref")
    steps, values = steps[-RECENT_ROWS:], values[-RECENT_ROWS:]
    limit = limits["negative_share"]
    if values.size < RECENT_ROWS:
        return None
    share = float((values < 0).mean())
    middle = stats.median(values)
    error = float(values.std(ddof=1)) / values.size**0.5
    certain = float(values.mean()) < -NEGATIVE_Z * error
    if share < limit.value or not middle < limits["negative_level"].value or not certain:
        return None
    where = (int(steps[0]), int(steps[-1]))
    text = (
        f"kl_ref is below 0 in {100 * share:.0f}% of the last {values.size} rows, median "
        f"{fmt(middle)} nats; chance gives "
        f"both signs; limit {limit}"
    )
    evidence = Evidence("kl_ref", text, share, "of rows", where, limit, ">", middle)
    what = (
        f"the signed KL estimate stays negative ({fmt(middle)} nats): sampled tokens do not come from the scored policy"
    )
    onset = course.onset(view, "kl_ref", log=False)
    return Finding(what, Action.WATCH, Confidence.MEDIUM, onset, (evidence,), "wrong distribution")


_MATHS = "arXiv 2510.01555; docs/measurements.md: KL estimators"
CHECK = Check(
    id="K004",
    name="kl-estimator-misuse",
    family=Family.LEASH,
    fault="The KL estimate is used or logged as something it cannot be.",
    why="k1 as a loss has zero expected gradient on policy and drives entropy up on reused rollouts; "
    "k2 and k3 are never "
    "negative; a sum over tokens grows with length and punishes long answers; a signed estimate that stays negative "
    "says that tokens were sampled from another distribution (temperature, top-p) than the one that is scored.",
    needs=Needs(any_of=("kl_ref", "kl_loss")),
    thresholds=(
        Threshold("negative", -1e-4, "nats", SourceKind.DEFINITION, "k2, k3 and exact KL are never negative"),
        Threshold("sum_ratio", 1.5, "times, either way", SourceKind.DEFINITION, "a sum is the mean times the length"),
        Threshold("k1_coefficient", 0, "coefficient", SourceKind.DEFINITION, f"E[grad k1] = 0 ({_MATHS})"),
        Threshold(
            "negative_share", 0.7, "of the last 30 rows", SourceKind.MEASURED, "docs/measurements.md: KL estimators"
        ),
        Threshold("negative_level", -0.01, "nats", SourceKind.MEASURED, "docs/measurements.md: KL estimators"),
    ),
    judge=judge,
    patience=2,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Use k3 weighted by the importance ratio, or k2, as the loss; or k1 inside the reward",
                    "kl_coef",
                    "check",
                ),
                Remedy("Average the KL over tokens, not over sequences", "", "set"),
            ),
            verify=(Verify("KL stays above 0 and stops rising", "kl_ref", "not rising", None, 60),),
            rollback=Rollback.NONE,
        ),
        "wrong distribution": Plan(
            remedies=(
                Remedy(
                    "Compare temperature, top-p and top-k of the sampler with what the trainer scores",
                    "temperature",
                    "check",
                ),
                Remedy("Check that prompt and completion tokens are aligned between sampler and trainer", "", "check"),
            ),
            verify=(Verify("the signed KL estimate takes both signs or turns positive", "kl_ref", ">", -0.01, 30),),
        ),
    },
    leads_to=("E002", "E003", "K001", "L003"),
    look_alikes=(
        LookAlike("A slightly negative KL", "k1 on samples is of both signs, about 1e-4 to 1e-3"),
        LookAlike("Two KL terms in one config", "KL in the reward may use k1: that is correct"),
    ),
    sources=(
        "docs/evidence.md: KL estimators",
        "docs/measurements.md: KL estimators",
        "docs/false-alarms.md: 7",
        "docs/false-alarms.md: 36",
    ),
)
