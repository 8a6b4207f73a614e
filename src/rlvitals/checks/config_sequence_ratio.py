"""C001: importance ratios per sequence under a loss that averages over tokens."""

from __future__ import annotations

from collections.abc import Mapping

from rlvitals.check import (
    Action,
    Check,
    Clear,
    Confidence,
    Family,
    LookAlike,
    Needs,
    NoData,
    NotApplicable,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.config_common import finding, per_sequence, setting, shown
from rlvitals.view import View

TOKEN = ("token mean", "constant length")


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    config = view.config
    if not per_sequence(view):
        return NotApplicable(f"importance ratios are per {config.importance_level or 'token'}")
    if config.loss_aggregation is None:
        return NoData(("loss_aggregation",))
    limit = limits["sequence_weight"]
    if config.loss_aggregation not in TOKEN:
        return Clear(f"{shown(view, 'loss_aggregation')}: every sequence counts once; limit {limit}")
    level = shown(view, "importance_level") if config.importance_level else shown(view, "loss_type")
    text = (
        f"{level} with {shown(view, 'loss_aggregation')}: the one ratio of a sequence is counted once per token, so a "
        f"sequence weighs by its length; limit {limit}"
    )
    found = setting(view, "loss_aggregation", text, 2.0, "weight of a sequence twice as long", limit, ">")
    summary = f"ratios are per sequence, but the loss weighs tokens ({config.loss_aggregation}): long answers gain"
    return finding(view, summary, Action.WATCH, (found,), confidence=Confidence.MEDIUM)


CHECK = Check(
    id="C001",
    name="sequence-ratio-token-loss",
    family=Family.CONFIG,
    fault="Importance ratios are taken per sequence, but the loss averages over tokens.",
    why="GSPO defines one ratio and one weight per sequence and averages over sequences. Under a token mean each "
    "sequence counts once per token: on one batch the loss is -0.100 instead of 0.049. Training goes on, with long "
    "answers weighing more than the method says.",
    needs=Needs(),
    thresholds=(
        Threshold("sequence_weight", 1, "per sequence", SourceKind.PAPER, "GSPO 2507.18071: a mean over sequences"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Average the loss over sequences", "loss_aggregation", "set"),
                Remedy("Or take importance ratios per token", "importance_level", "set"),
            ),
            verify=(Verify("the first row after the change is logged", "loss", "finite", None, 1),),
        ),
    },
    look_alikes=(
        LookAlike("Ratios per token under a token mean, as in DAPO", "the importance level is token"),
        LookAlike("verl after August 2026, which averages GSPO over sequences whatever is set", "verl's version"),
    ),
    sources=(
        "docs/evidence.md: Settings that do not fit each other",
        "2507.18071",
    ),
)
