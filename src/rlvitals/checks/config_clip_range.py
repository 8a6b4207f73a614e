"""C006: the clip range does not fit the kind of ratio that it bounds."""

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
from rlvitals.checks.config_common import PRODUCT, finding, per_sequence, setting, shown
from rlvitals.view import View

UNCLIPPED = frozenset({"reinforce", "gpg", "cispo", "sapo", "vespo", "dro", "kimi", "importance_sampling"})


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    config = view.config
    loss = (config.loss_type or "").lower()
    if loss in UNCLIPPED:
        return NotApplicable(f"the {loss} loss clips no ratio")
    bounds = [(field, getattr(config, field)) for field in ("clip_low", "clip_high")]
    known = [(field, value) for field, value in bounds if value is not None]
    if not known or (not loss and config.importance_level is None):
        missing = ("clip_high",) if not known else ("importance_level",)
        return NoData(missing)
    field, widest = max(known, key=lambda pair: pair[1])
    if config.importance_level == PRODUCT:
        return NotApplicable("ratios of whole sequences grow with the length: no range of theirs is known")
    if per_sequence(view):
        limit = limits["sequence_range"]
        if loss == "gmpo" or widest <= limit.value:
            return Clear(f"{shown(view, field)} around ratios per sequence; limit {limit}")
        text = f"{shown(view, field)} around ratios per sequence, which hardly leave 1; limit {limit}"
        found = setting(view, field, text, widest, "distance from 1", limit, ">")
        summary = f"a clip range of {widest:g} around sequence ratios clips next to nothing: clipping is off"
        return finding(view, summary, Action.WATCH, (found,), confidence=Confidence.MEDIUM)
    limit = limits["token_range"]
    if widest >= limit.value:
        return Clear(f"{shown(view, field)} around ratios per token; limit {limit}")
    text = f"{shown(view, field)} around ratios per token, which differ by more than that in any update; limit {limit}"
    found = setting(view, field, text, widest, "distance from 1", limit, "<")
    summary = f"a clip range of {widest:g} around token ratios clips nearly every token that moves"
    return finding(view, summary, Action.WATCH, (found,), variant="too narrow", confidence=Confidence.MEDIUM)


CHECK = Check(
    id="C006",
    name="clip-range-misfit",
    family=Family.CONFIG,
    fault="The clip range does not fit the kind of ratio: far too wide for sequences or far too narrow for tokens.",
    why="A ratio per sequence is a geometric mean over its tokens and stays within thousandths of 1, so GSPO clips at "
    "3e-4 and 4e-4; 0.2 there never acts. A ratio per token moves by percents, so 3e-4 there cuts the gradient of "
    "nearly every token that moved.",
    needs=Needs(),
    thresholds=(
        Threshold(
            "sequence_range", 0.02, "distance from 1", SourceKind.PAPER,
            "GSPO 2507.18071: 3e-4 and 4e-4; fifty times that clips next to nothing",
        ),
        Threshold(
            "token_range", 0.01, "distance from 1", SourceKind.PAPER, "PPO and DAPO 2503.14476: 0.2 and 0.28 per token"
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Lower the range to a few 1e-4, the upper bound a little wider", "clip_high", "lower"),
                Remedy("Or take ratios per token", "importance_level", "set"),
            ),
            verify=(Verify("some sequences are clipped", "clip_frac", "some >", 0.0, 50),),
        ),
        "too narrow": Plan(
            remedies=(
                Remedy("Raise the range to 0.2, the upper bound to 0.2 to 0.28", "clip_high", "raise"),
                Remedy("Or take ratios per sequence", "importance_level", "set"),
            ),
            verify=(Verify("few tokens are clipped", "clip_frac", "<", 0.1, 50),),
        ),
    },
    leads_to=("U004",),
    look_alikes=(
        LookAlike("A range of 4e-4 in GSPO, or 10 in DeepSeek-R1", "the importance level, the loss type"),
        LookAlike("Ratios of whole sequences, products over tokens: they leave 1 soon", "the importance level"),
    ),
    sources=("docs/evidence.md: Settings that do not fit each other", "2507.18071", "docs/false-alarms.md: 10",),
)  # fmt: skip
