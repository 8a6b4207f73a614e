"""C010: the learning rate is far from what is usual for full training or for LoRA."""

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


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    config = view.config
    if config.learning_rate is None:
        return NoData(("learning_rate",))
    if config.learning_rate == 0:
        return NotApplicable("a learning rate of 0 is learning-rate-zero's")
    kinds = {True: ("lora",), False: ("full",), None: ("full", "lora")}[config.uses_lora]
    low = min((limits[f"{kind}_lowest"] for kind in kinds), key=lambda t: t.value)
    high = max((limits[f"{kind}_highest"] for kind in kinds), key=lambda t: t.value)
    rate = config.learning_rate
    what = {True: "for LoRA", False: "for full training", None: "for full training or LoRA"}[config.uses_lora]
    if low.value <= rate <= high.value:
        return Clear(f"{shown(view, 'learning_rate')} is usual {what}; limits {low} and {high}")
    limit, how = (low, "<") if rate < low.value else (high, ">")
    side = "below" if rate < low.value else "above"
    text = f"{shown(view, 'learning_rate')} is {side} what is usual {what}; limit {limit}"
    found = setting(view, "learning_rate", text, rate, "1/step", limit, how)
    summary = f"the learning rate {rate:g} is {side} what is usual {what}"
    return finding(view, summary, Action.NOTE, (found,), variant=side, confidence=Confidence.LOW)


CHECK = Check(
    id="C010",
    name="learning-rate-unusual",
    family=Family.CONFIG,
    fault="The learning rate is far from what is usual for full training or for LoRA.",
    why="Language models of a billion parameters and more are trained at about 1e-6, LoRA at about ten times that and "
    "up to 1e-4 and more. A rate of 1e-8 moves nothing in the steps of a usual run. Small models take larger rates: "
    "this is a note, and the curves decide.",
    needs=Needs(),
    thresholds=(
        Threshold("full_lowest", 5e-8, "1/step", SourceKind.CONVENTION, "full: usually 1e-6; 1e-8 moved nothing"),
        Threshold("full_highest", 2e-5, "1/step", SourceKind.CONVENTION, "full: 1e-6 in most recipes"),
        Threshold("lora_lowest", 5e-7, "1/step", SourceKind.CONVENTION, "LoRA: about 10 times the full rate"),
        Threshold("lora_highest", 1e-3, "1/step", SourceKind.CONVENTION, "LoRA: about 10 times the full rate"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(Remedy("Check that the rate is meant", "learning_rate", "check"),),
            verify=(Verify("the gradient norm stays level", "grad_norm", "not rising", None, 50),),
        ),
        "below": Plan(
            remedies=(Remedy("Check that the rate is meant: nothing may move at all", "learning_rate", "check"),),
            verify=(Verify("KL to the reference leaves 0", "kl_ref", ">", 0.0, 50),),
        ),
    },
    look_alikes=(LookAlike("A small model, or another optimizer than Adam", "the model's size, the optimizer"),),
    sources=(
        "docs/evidence.md: Settings that do not fit each other",
        "minimind#755",
        "trl#2872",
    ),
)
