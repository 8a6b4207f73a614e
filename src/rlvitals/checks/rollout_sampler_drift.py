"""O001: the sampler does not sample what the trainer assumes: other temperature, or a truncated distribution."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

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
from rlvitals.checks import companions, course
from rlvitals.checks.common import fmt, onset_of, shift
from rlvitals.schema import Float64
from rlvitals.view import View

ROWS = 50  # recent rows
LEAST_ROWS = 15
RISE_ROWS = 60  # rows in which a reward that can rise has risen beyond its noise (convention)
LEAST_GAP = 0.9  # of the missing mass: tokens that gained it differ by all of it (definition; a tenth for rounding)
LOWEST_KEPT = 0.8  # a mean ratio below this is no kept mass of any usual top-p: another fault


GAPS = (("logprob_gap_mean", 0.02), ("prob_gap_mean", 0.005))  # with the level below which it is numerics (convention)
GREW = 10.0  # times its first value (convention)


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    grew = _weights_differ(view)
    if grew:
        return Clear(grew)
    gap = _surprisal_gap(view, limits)
    mass = _kept_mass(view, limits)
    found = [f for f in (gap, mass) if isinstance(f, Finding)]
    if len(found) == 2 and found[0].action is Action.WATCH:
        both = (*found[0].evidence, *found[1].evidence)
        text = f"{found[0].summary}; the mean ratio agrees"
        return Fired(Finding(text, Action.WATCH, Confidence.HIGH, found[0].onset, both, found[0].variant))
    if found:
        return Fired(found[0])
    return Clear("; ".join(f for f in (gap, mass) if isinstance(f, str) and f))


def _weights_differ(view: View) -> str:
    """Say that sampler and trainer agreed in the first row and no longer do: other weights, not other settings."""
    for metric, least in GAPS:
        if view.has(metric, LEAST_ROWS) and view.first_seen(metric) == view.first_step:
            first, level = float(view.head(metric)[0]), stats.median(view.recent(metric, ROWS)[1])
            if first < least < level and level > GREW * first:
                return (
                    f"{metric} was {fmt(first)} at step {view.first_step} and is {fmt(level)} now: with other settings "
                    "it would have been there from the start; the weights of the sampler are others (see version-lag, "
                    "logprob-gap-ramp)"
                )
    return ""


def _certainty(values: Float64, target: float) -> float:
    """Return |mean - target| in standard errors, allowing for autocorrelation."""
    away = abs(float(values.mean()) - target)
    inflation = stats.inflation(np.arange(values.size, dtype=float), values)
    error = math.sqrt(float(values.var(ddof=1)) / values.size * inflation)
    return away / max(error, away / course.CERTAIN) if away > 0 else 0.0


def _surprisal_gap(view: View, limits: Mapping[str, Threshold]) -> Finding | str:
    """Surprisal minus entropy is 0 when tokens were drawn from the scored policy, whatever that policy is."""
    if view.config.drops_zero_variance and not view.config.scores_dropped:
        return "groups are dropped by their rewards: the tokens that are left are a selection, and say nothing here"
    steps, surprisal, entropy = view.steps_of(ROWS), view.rows_of("surprisal_mean", ROWS), view.rows_of("entropy", ROWS)
    keep = np.isfinite(surprisal) & np.isfinite(entropy) & (entropy > 0)
    if keep.sum() < LEAST_ROWS:
        return ""
    # a ratio of means: near an entropy of 0 a row's surprisal is far below it, but for a rare token now and then
    relative = (surprisal[keep] - entropy[keep]) / float(entropy[keep].mean())
    mean, z = float(relative.mean()), _certainty(relative, 0.0)
    where = (int(steps[keep][0]), int(steps[keep][-1]))
    seen = (
        f"the sampled tokens' surprisal is {fmt(100 * mean)}% away from the entropy over steps {where[0]}-{where[1]} "
        f"({fmt(z)} standard errors)"
    )
    small, large, sure = limits["gap_small"], limits["gap_large"], limits["z"]
    if not (abs(mean) > small.value and z > sure.value):
        return f"{seen}; limit {small}"
    # of an entropy near 0 the rounding of a sampler is a large share, and moves no token by much
    nats = abs(mean) * float(entropy[keep].mean())
    limit = large if abs(mean) > large.value and nats > limits["gap_nats"].value else small
    evidence = Evidence("surprisal_mean", f"{seen}; limit {limit}", mean, "of the entropy", where, limit, ">", 0.0)
    side = "sharper (lower temperature or top-p)" if mean < 0 else "flatter (higher temperature)"
    off = f"surprisal {fmt(100 * mean)}% off the entropy"
    what = f"the sampler is {side} than the policy that the trainer scores: {off}"
    first = max(view.first_seen("surprisal_mean"), view.first_seen("entropy"))
    onset = onset_of(view, "surprisal_mean", 0.0, math.inf)
    onset = type(onset)(first, max(first, onset.last))
    action = Action.ADJUST if limit is large else Action.WATCH
    confidence = Confidence.HIGH if limit is large else Confidence.MEDIUM
    return Finding(what, action, confidence, onset, (evidence,), "temperature")


def _kept_mass(view: View, limits: Mapping[str, Threshold]) -> Finding | str:
    """The mean ratio of full-vocabulary trainer to renormalised sampler probabilities is the mass that was kept."""
    steps, values = view.recent("sampler_ratio_mean", ROWS)
    if values.size < LEAST_ROWS:
        return ""
    mean, z = float(values.mean()), _certainty(values, 1.0)
    where = (int(steps[0]), int(steps[-1]))
    seen = (
        f"the mean ratio of trainer to sampler probability is {mean:.4f} over steps {where[0]}-{where[1]} "
        f"({fmt(z)} standard errors from 1)"
    )
    limit = limits["kept_mass"]
    if not (LOWEST_KEPT < mean < limit.value and z > limits["z"].value):
        return f"{seen}; limit {limit}"
    top_p = view.config.top_p
    known = f"; top_p is {fmt(top_p)} in the config" if top_p is not None else ""
    evidence = Evidence("sampler_ratio_mean", f"{seen}{known}; limit {limit}", mean, "ratio", where, limit, "<", 1.0)
    what = f"the sampler keeps about {100 * mean:.1f}% of the probability mass (top-p, top-k or min-p){known}"
    onset = onset_of(view, "sampler_ratio_mean", LOWEST_KEPT, limit.value)
    gap = _gap(view, mean)
    if gap < LEAST_GAP:
        return (
            f"{seen}, while the log-probabilities differ by {fmt(gap)} times what is missing: the ratio is one of "
            "whole sequences, or was cut, and tells nothing of the mass"
        )
    one_sided = _one_sided(view, gap, mean, limits)
    if one_sided is not None and mean < limits["kept_mass_least"].value:
        least = limits["kept_mass_least"]
        moves = replace(evidence, text=f"{seen}{known}; limit {least}", threshold=least)
        what += ", and no sampled token is less likely to it than to the trainer"
        return Finding(what, Action.ADJUST, Confidence.HIGH, onset, (moves, one_sided), "truncated")
    moved = shift(view, "reward_mean")
    if view.count("reward_mean") < RISE_ROWS or moved.low > 0 or companions.reward_place(view) >= 0.9:
        return Finding(what, Action.WATCH, Confidence.MEDIUM, onset, (evidence,), "truncated")
    text = f"reward_mean does not rise: {fmt(moved.early)} in the first third, {fmt(moved.late)} in the last"
    flat = Evidence("reward_mean", text, moved.late, "reward", moved.steps, before=moved.early)
    what += ", and the reward does not rise"
    return Finding(what, Action.ADJUST, Confidence.MEDIUM, onset, (evidence, flat), "truncated")


def _gap(view: View, mass: float) -> float:
    """Return the mean gap between log-probabilities, nats per missing mass; NaN where too few are logged."""
    gaps = view.recent("logprob_gap_mean", ROWS)[1]
    return float(np.abs(gaps).mean()) / (1 - mass) if gaps.size >= LEAST_ROWS else math.nan


def _one_sided(view: View, gap: float, mass: float, limits: Mapping[str, Threshold]) -> Evidence | None:
    """Return the evidence that the gaps all have one sign, None where they have both or aren't logged.

    A sampler that leaves tokens out makes every other one likelier, by 1 / kept: the mean gap is then the mean of
    -log kept, which is 1 - kept or a little more. Noise, old weights and other temperatures have gaps of both signs,
    whose size is many times what is left of them in the mean ratio.
    """
    steps = view.recent("logprob_gap_mean", ROWS)[0]
    limit = limits["one_sided"]
    if not gap < limit.value:
        return None
    text = (
        f"the log-probabilities differ by {fmt(gap * (1 - mass))} nats on average, {fmt(gap)} times the mass that is "
        f"missing: all in one direction; limit {limit}"
    )
    where = (int(steps[0]), int(steps[-1]))
    return Evidence("logprob_gap_mean", text, gap, limit.unit, where, limit, "<", 1.0)


_BASIS = "docs/measurements.md: Sampler identities"
CHECK = Check(
    id="O001",
    name="sampler-settings-drift",
    family=Family.ROLLOUT,
    fault="The sampler runs with other settings than the trainer assumes.",
    why="Two identities hold whenever tokens are drawn from the policy that is scored: their mean surprisal equals its "
    "entropy, and the mean ratio of trainer to sampler probability is 1. A sharper temperature breaks the first even "
    "where the logged probabilities agree exactly; top-p breaks the second by the mass it cuts. Such drift between the "
    "intended and the deployed sampler is common and invisible in the other curves.",
    needs=Needs(any_of=("surprisal_mean", "sampler_ratio_mean"), rows=LEAST_ROWS),
    thresholds=(
        Threshold("gap_small", 0.05, "of the entropy", SourceKind.MEASURED, _BASIS),
        Threshold("gap_large", 0.15, "of the entropy", SourceKind.MEASURED, f"{_BASIS} (T=0.7: -15 to -30%)"),
        Threshold("gap_nats", 0.02, "nats/token", SourceKind.MEASURED, f"{_BASIS} (4-bit .012, temperature .6 .03)"),
        Threshold("kept_mass", 0.995, "ratio", SourceKind.DEFINITION, f"1 with full support; {_BASIS}"),
        Threshold("kept_mass_least", 0.99, "ratio", SourceKind.MEASURED, f"{_BASIS} (.978 cost .3 of held-out)"),
        Threshold(
            "one_sided", 1.3, "nats per missing mass", SourceKind.DEFINITION, f"-log k / (1 - k) at k .6; {_BASIS}"
        ),
        Threshold("z", 5, "standard errors", SourceKind.MEASURED, _BASIS),
    ),
    judge=judge,
    patience=2,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Compare the sampler's real temperature, top-p, top-k and min-p with the config",
                    "temperature",
                    "check",
                ),
                Remedy(
                    "Return processed log-probabilities from the sampler, and score at the same temperature",
                    "temperature",
                    "check",
                ),
            ),
            verify=(Verify("surprisal equals entropy within 5%", "surprisal_mean", "", None, 20),),
        ),
        "truncated": Plan(
            remedies=(
                Remedy(
                    "Set the sampler's top-p to 1 and top-k off for "
                    "training rollouts, or score over the kept tokens alone",
                    "top_p",
                    "set",
                ),
            ),
            verify=(Verify("the mean ratio is 1", "sampler_ratio_mean", ">", 0.995, 20),),
        ),
    },
    leads_to=("O002", "S009", "S001", "Y002", "Y006", "K001", "K004", "E001", "E002", "U006"),
    look_alikes=(
        LookAlike("Groups dropped by their rewards", "wrong answers, less likely ones, are left: a higher surprisal"),
        LookAlike("A sampler in 4 bits, late in a run", "a large share of an entropy near 0: watch below 0.02 nats"),
        LookAlike("A mean ratio slightly off 1", "within its own noise, or above 0.995"),
        LookAlike("A mean ratio of 0.5", "a ratio of whole sequences, or masked ones: no kept mass"),
        LookAlike("Stale weights", "they hardly move surprisal minus entropy; the version lag shows them"),
    ),
    sources=("docs/measurements.md: Sampler identities", "Why GRPO training fails: sampling configuration", "trl#6789"),
)
