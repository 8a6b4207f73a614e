"""C003: the truncation bound of CISPO is read by another rule than it was meant for."""

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
from rlvitals.checks.config_common import finding, setting, shown
from rlvitals.view import View

ABSOLUTE = frozenset({"TRL", "unsloth", "ms-swift"})
"""Trainers in which the bound is the largest weight itself; elsewhere it is added to 1."""
RELATIVE = frozenset({"verl", "slime", "open-instruct", "agent-lightning"})


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    config = view.config
    if (config.loss_type or "").lower() != "cispo":
        return NotApplicable(f"the {config.loss_type or 'unnamed'} loss truncates no weights")
    if config.clip_high is None:
        return NoData(("clip_high",))
    bound = config.clip_high
    if view.trainer.name in ABSOLUTE:
        limit = limits["on_policy_weight"]
        if bound >= limit.value:
            return Clear(f"weights are cut above {bound:g}; on policy they are 1; limit {limit}")
        text = (
            f"{shown(view, 'clip_high')} with CISPO is the largest weight itself in {view.trainer.name}: every weight "
            f"of 1 is cut to {bound:g}; limit {limit}"
        )
        found = setting(view, "clip_high", text, bound, "weight", limit, "<")
        summary = f"CISPO cuts every weight to {bound:g}: this trainer's bound is absolute, not added to 1"
        return finding(view, summary, Action.FIX, (found,))
    if view.trainer.name not in RELATIVE:
        return NoData((), f"whether {view.trainer.name} adds 1 to the bound of CISPO is not known")
    limit = limits["usual_weight"]
    if 1 + bound <= limit.value:
        return Clear(f"weights are cut above {1 + bound:g} (1 + {bound:g}); limit {limit}")
    text = f"{shown(view, 'clip_high')} is added to 1: weights are cut above {1 + bound:g}; limit {limit}"
    found = setting(view, "clip_high", text, 1 + bound, "weight", limit, ">")
    summary = f"CISPO cuts weights above {1 + bound:g} only: this trainer adds 1 to the bound"
    return finding(view, summary, Action.NOTE, (found,), variant="added to 1", confidence=Confidence.MEDIUM)


CHECK = Check(
    id="C003",
    name="cispo-bound-misread",
    family=Family.CONFIG,
    fault="CISPO's bound was given as a distance from 1 to a trainer that takes it absolute, or the reverse.",
    why="TRL and ms-swift cut weights at the bound itself (5 in ScaleRL), verl, slime and open-instruct at 1 plus the "
    "bound. 0.28 given to TRL cuts every weight to 0.28 and makes the gradient that much smaller; 5 given to verl cuts "
    "at 6.",
    needs=Needs(),
    thresholds=(
        Threshold("on_policy_weight", 1, "weight", SourceKind.DEFINITION, "on policy the importance weight is 1"),
        Threshold("usual_weight", 5, "weight", SourceKind.PAPER, "ScaleRL 2510.13786: CISPO with a bound of 5"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(Remedy("Give the largest weight itself, 5 for example", "clip_high", "raise"),),
            verify=(Verify("few weights are cut", "clip_frac", "<", 0.05, 20),),
        ),
        "added to 1": Plan(
            remedies=(Remedy("Give the bound without the 1, 4 for a largest weight of 5", "clip_high", "lower"),),
            verify=(Verify("some weights are cut", "clip_frac", "some >", 0.0, 50),),
        ),
    },
    look_alikes=(LookAlike("0.28 in a trainer that adds 1", "the trainer: verl, slime and open-instruct add 1"),),
    sources=(
        "docs/evidence.md: Settings that do not fit each other",
        "2510.13786",
    ),
)
