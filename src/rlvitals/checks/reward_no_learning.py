"""R010: the reward has not risen although there is room for it."""

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
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import coarse, fmt, now, shift
from rlvitals.checks.scale import reward_scale
from rlvitals.view import View

STRICT_Z = 2.6  # normal quantile of a two-sided 0.01


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    metric = "reward_mean"
    loose, strict = shift(view, metric, z=1.96), shift(view, metric, z=STRICT_Z)
    scale = reward_scale(view)
    room = scale.high - loose.early
    if loose.best_low > 0:
        return Clear(
            f"reward_mean has risen: {fmt(loose.early)} in the first third to {fmt(loose.late)} in the last "
            f"(at least {loose.best_low:+.3g} at z 1.96 in one of the comparisons)"
        )
    if loose.z < -STRICT_Z:
        return Clear(f"reward_mean fell from {fmt(loose.early)} to {fmt(loose.late)}: R014 and R002 look at that")
    rising = stats.trend(*coarse(view, metric), z=1.96)
    if rising.rising:
        return Clear(f"reward_mean rises: slope at least {rising.low:.2g} per step over {loose.rows} logged steps")
    place = scale.place(loose.early)
    high = limits["near_top"].value
    if room <= 0 or (place >= high and (scale.known or scale.source.startswith("single"))):
        return Clear(
            f"reward_mean starts at {fmt(loose.early)}, near its maximum {fmt(scale.high)}: little headroom to learn"
        )
    part, limit = strict.high / room, limits["gain_share"]
    enough = strict.rows >= limits["rows_act"].value
    excluded = part < limit.value and strict.rows >= limits["rows_act"].value
    second = _second_signal(view, limits) if excluded else None
    text = (
        f"reward_mean went from {fmt(strict.early)} (first third) to {fmt(strict.late)} (last third) over "
        f"{strict.rows} logged "
        f"steps, {strict.steps[0]} to {strict.steps[1]}; the gain is at most {strict.high:+.3g} at z {STRICT_Z}, "
        f"{part:.0%} of the headroom {fmt(room)} (to {fmt(scale.high)}, from {scale.source}; limit {limit})"
    )
    evidence = [Evidence(metric, text, part, "of headroom", strict.steps, limit, "<", strict.early)]
    if second is not None:
        evidence.append(second)
    if excluded:
        summary = (
            f"No learning so far: over {strict.rows} logged steps the gain is below {max(part, 0):.0%} of the headroom"
        )
    else:
        why = "the log is too short" if not enough else "the noise is too large"
        summary = (
            f"No learning so far: reward {fmt(strict.early)} to {fmt(strict.late)} over {strict.rows} logged steps; "
            f"{why} to exclude a slow one"
        )
    act = excluded and second is not None
    return Fired(
        Finding(
            summary,
            Action.ADJUST if act else Action.WATCH,
            Confidence.HIGH if act else (Confidence.MEDIUM if excluded else Confidence.LOW),
            Onset(view.first_seen(metric), view.first_seen(metric)),
            tuple(evidence),
            "" if excluded else "not shown",
        )
    )


def _second_signal(view: View, limits: Mapping[str, Threshold]) -> Evidence | None:
    """Return a second, independent sign that the policy is where it was: KL to the reference, or held-out scores."""
    limit = limits["kl_unmoved"]
    kl = now(view, "kl_ref")
    if kl.n >= 10 and view.has("kl_ref") and max(abs(kl.low), abs(kl.high)) < limit.value:
        return Evidence(
            "kl_ref",
            f"KL to the reference is at most {max(abs(kl.low), abs(kl.high)):.2g} nats/token over the last {kl.n} "
            f"logged "
            f"steps (limit {limit}): the policy is where it started",
            max(abs(kl.low), abs(kl.high)),
            "nats/token",
            kl.steps,
            limit,
            "<",
        )
    for name, held in sorted(view.evals.items()):
        if held.step.size < 4 or held.metric != "accuracy" or not np.all((held.score >= 0) & (held.score <= 1)):
            continue
        half = held.step.size // 2
        spread = float(np.std(np.diff(held.score)) / math.sqrt(2))
        gain = float(held.score[half:].mean() - held.score[:half].mean())
        upper = gain + STRICT_Z * spread * math.sqrt(1 / half + 1 / (held.step.size - half))
        room = 1 - float(held.score[:half].mean())
        share = limits["gain_share"]
        if room > 0 and upper / room < share.value:
            return Evidence(
                f"held-out/{name}",
                f"held-out {name} went from {held.score[:half].mean():.3g} to {held.score[half:].mean():.3g}: at most "
                f"{upper / room:.0%} of its headroom (limit {share})",
                upper / room,
                "of headroom",
                (int(held.step[0]), int(held.step[-1])),
                share,
                "<",
            )
    return None


CHECK = Check(
    id="R010",
    name="no-learning-so-far",
    family=Family.REWARD,
    fault="The reward has not risen since the start, although there is room above it.",
    why="Steps are being spent without a visible gain. Whether that is a slow start or no learning at all can only be "
    "said when the interval of the gain is small against the headroom; until then this is a thing to watch.",
    needs=Needs(all_of=("reward_mean",), rows=40),
    thresholds=(
        Threshold(
            "gain_share", 0.1, "of the headroom", SourceKind.MEASURED, "docs/measurements.md: no learning so far"
        ),
        Threshold("rows_act", 200, "logged steps", SourceKind.MEASURED, "docs/measurements.md: no learning so far"),
        Threshold(
            "kl_unmoved", 0.005, "nats/token", SourceKind.MEASURED, "docs/measurements.md: KL of runs that learn"
        ),
        Threshold(
            "near_top", 0.9, "of the reward range", SourceKind.MEASURED, "docs/measurements.md: no learning so far"
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy(
                    "Clear reward, signal and rollout faults first: they stop learning without a sign here",
                    "verifier",
                    "check",
                ),
                Remedy("Move the tasks to where the policy succeeds in 10% to 90% of attempts", "curriculum", "set"),
                Remedy("Raise the learning rate if KL and weights hardly move", "learning_rate", "raise"),
            ),
            verify=(
                Verify("the reward does not fall over the next 100 steps", "reward_mean", "not falling", None, 100),
            ),
        ),
        "not shown": Plan(
            remedies=(
                Remedy(
                    "Log on: more steps, or more prompts per step, to make the trend visible",
                    "prompts_per_step",
                    "raise",
                ),
                Remedy("Evaluate a fixed held-out set at a steady cadence", "", "check"),
            ),
            verify=(
                Verify("the reward does not fall over the next 100 steps", "reward_mean", "not falling", None, 100),
            ),
        ),
    },
    leads_to=("H003",),
    patience=2,
    look_alikes=(
        LookAlike("one or two prompts per step: binomial noise", "the bound of the gain, not the look of the curve"),
        LookAlike("a run near its maximum", "no headroom"),
        LookAlike("a plateau after learning", "one of the comparisons shows the earlier rise"),
    ),
    sources=("docs/measurements.md: No learning so far", "docs/false-alarms.md: 35"),
)
