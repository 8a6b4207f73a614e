"""C008: the sampler leaves out unlikely tokens, and the trainer scores over the whole vocabulary."""

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
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.config_common import finding, setting, shown
from rlvitals.view import View

OFF = (0, -1)  # ways to switch top-k off


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    config = view.config
    if config.top_p is None and config.top_k is None and config.min_p is None:
        return NoData(("top_p",))
    cuts = []
    if config.top_p is not None and config.top_p < limits["top_p"].value:
        text = f"{shown(view, 'top_p')}: up to {1 - config.top_p:.0%} of the probability is never sampled; "
        limit = limits["top_p"]
        cuts.append(setting(view, "top_p", text + f"limit {limit}", config.top_p, "probability", limit, "<"))
    if config.top_k is not None and config.top_k not in OFF and config.top_k < (config.vocab_size or config.top_k + 1):
        text = f"{shown(view, 'top_k')}: tokens beyond are never sampled; limit {limits['top_k']}"
        cuts.append(setting(view, "top_k", text, float(config.top_k), "tokens", limits["top_k"], ">"))
    if config.min_p is not None and config.min_p > limits["min_p"].value:
        text = f"{shown(view, 'min_p')}: less likely tokens are never sampled; limit {limits['min_p']}"
        cuts.append(setting(view, "min_p", text, config.min_p, "share", limits["min_p"], ">"))
    if not cuts:
        return Clear(f"every token can be sampled: top_p {config.top_p}, top_k {config.top_k}, min_p {config.min_p}")
    names = " and ".join(e.metric.replace("_", "-") for e in cuts)
    summary = f"rollouts are sampled with {names}, and scored over the whole vocabulary"
    little = config.top_p is None or config.top_p >= limits["little"].value
    wide = config.top_k is None or config.top_k in OFF or config.top_k >= limits["wide"].value
    action = Action.NOTE if little and wide and not config.min_p else Action.WATCH
    return finding(view, summary, action, tuple(cuts), confidence=Confidence.MEDIUM)


CHECK = Check(
    id="C008",
    name="truncated-sampling",
    family=Family.CONFIG,
    fault="The sampler cuts unlikely tokens (top-p, top-k, min-p); log-probabilities are over the whole vocabulary.",
    why="What the sampler draws from is the kept part, renormalised. Scored over the whole vocabulary a token looks "
    "less likely than it was: the mean importance ratio equals the kept mass, 0.90 to 0.95 for usual settings, and "
    "tokens that were cut are never explored.",
    needs=Needs(),
    thresholds=(
        Threshold("top_p", 1, "probability", SourceKind.DEFINITION, "1 keeps every token"),
        Threshold("top_k", 0, "tokens", SourceKind.DEFINITION, "0 or -1 keeps every token"),
        Threshold("min_p", 0, "share", SourceKind.DEFINITION, "0 keeps every token"),
        Threshold("little", 0.98, "probability", SourceKind.CONVENTION, "a cut of 2% or less is only noted"),
        Threshold("wide", 50, "tokens", SourceKind.CONVENTION, "a top-k of 50 or more is only noted"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Sample from the whole vocabulary while training", "top_p", "raise"),
                Remedy("And switch top-k off", "top_k", "set"),
            ),
            verify=(Verify("the mean ratio of trainer to sampler is 1", "sampler_ratio_mean", ">", 0.99, 20),),
        ),
    },
    leads_to=("O001",),
    look_alikes=(LookAlike("Evaluation settings with top-p", "which section of the config the setting stands in"),),
    sources=(
        "docs/evidence.md: What no curve shows",
        "trl#6789",
    ),
)
