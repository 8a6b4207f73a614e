"""U003: a large and growing share of tokens is clipped."""

from __future__ import annotations

from collections.abc import Mapping

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
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import RECENT
from rlvitals.checks.config_common import SEQUENCE_LEVELS
from rlvitals.checks.signal_common import centre, lasting_onset, span
from rlvitals.view import View

MIN_ROWS = 30
SEQUENCE_LOSSES = frozenset({"gspo", "luspo", "gmpo"})
REFERENCE_RATIO = frozenset({"mlx-lm-lora"})
"""Trainers whose clip fraction is taken over the ratio to the reference: near 1 is normal there."""


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    if view.trainer.name.lower() in REFERENCE_RATIO:
        return NotApplicable(f"{view.trainer.name} clips the ratio to the reference, which is far from 1 by design")
    sequence = (
        view.config.importance_level in SEQUENCE_LEVELS or (view.config.loss_type or "").lower() in SEQUENCE_LOSSES
    )
    limit = limits["clipped_sequences" if sequence else "clipped_tokens"]
    steps, values = view.recent("clip_frac")
    steps, values = steps[-RECENT:], values[-RECENT:]
    level, start = centre(values), centre(view.head("clip_frac"))
    shown = f"the clip fraction is {level:.3g} over steps {span(steps)[0]}-{span(steps)[1]}, {start:.3g} at the start"
    if level <= limit.value:
        return Clear(f"{shown}; limit {limit}")
    rise = stats.change(view.head("clip_frac"), values, z=2.3)
    growth = limits["growth"]
    if not (rise.low > 0 and level > growth.value * start):
        return Clear(f"{shown}: high and not growing, as with a narrow clip range; growth limit {growth}")
    trace = view.trace("clip_frac", center="median")
    evidence = (
        Evidence(
            metric="clip_frac",
            text=f"{shown}; limit {limit}",
            observed=level,
            unit="fraction",
            steps=span(steps),
            threshold=limit,
            comparison=">",
            before=start,
        ),
    )
    summary = (
        f"{level:.0%} of the {'sequences' if sequence else 'tokens'} are clipped, and the share grows: "
        "updates are large"
    )
    onset = lasting_onset(trace, trace.value > limit.value, int(steps[0]))
    return Fired(Finding(summary, Action.WATCH, Confidence.MEDIUM, onset, evidence))


CHECK = Check(
    id="U003",
    name="clip-saturation",
    family=Family.UPDATE,
    fault="A large and growing share of tokens is clipped.",
    why="Clipping holds back updates that move too far from the policy that sampled. A growing share is an early "
    "companion "
    "of entropy and KL trouble, never an alarm of its own; its level depends on the loss and the clip range.",
    needs=Needs(all_of=("clip_frac",), rows=MIN_ROWS),
    thresholds=(
        Threshold(
            "clipped_tokens", 0.1, "fraction", SourceKind.CONVENTION, "5 times the usual 0.0005 to 0.02 per token"
        ),
        Threshold(
            "clipped_sequences",
            0.7,
            "fraction",
            SourceKind.PAPER,
            "GSPO 2507.18071: about 100 times more, 0.1 to 0.5 usual",
        ),
        Threshold("growth", 3, "x", SourceKind.CONVENTION, "clearly more than at the run's own start"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Take fewer optimizer steps per rollout batch", "updates_per_rollout", "lower"),
                Remedy("Lower the learning rate if entropy or KL move as well", "learning_rate", "lower"),
            ),
            verify=(Verify("the clip fraction stops rising", "clip_frac", "not rising", None, 50),),
        ),
    },
    look_alikes=(
        LookAlike("Sequence-level ratios with a clip range of 4e-4 clip 100 times more", "the loss type"),
        LookAlike("A tiny clip range clips much from the first step on", "the share does not grow"),
    ),
    patience=2,
    sources=("GRPO health-check runbook: step 4", "docs/false-alarms.md: 10", "GSPO 2507.18071"),
)
