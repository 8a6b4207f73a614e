"""C009: prompt and completion budgets together do not fit into the context."""

from __future__ import annotations

from collections.abc import Mapping

from rlvitals.check import (
    Action,
    Check,
    Clear,
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


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    config = view.config
    needed = [f for f in ("token_budget", "context_length") if getattr(config, f) is None]
    if needed:
        return NoData(tuple(needed))
    assert config.token_budget is not None
    assert config.context_length is not None
    prompt = config.prompt_budget or 0
    total, limit = prompt + config.token_budget, limits["over"]
    over = total - config.context_length
    parts = [shown(view, f) for f in ("prompt_budget", "token_budget", "context_length") if getattr(config, f)]
    if over <= limit.value:
        return Clear(f"{', '.join(parts)}: {-over} tokens to spare; limit {limit}")
    left = config.context_length - prompt
    text = f"{', '.join(parts)}: {over} tokens too many; limit {limit}"
    found = setting(view, "token_budget", text, float(over), "tokens", limit, ">")
    summary = f"the longest prompts leave {max(left, 0)} tokens of the {config.token_budget} planned for a completion"
    return finding(view, summary, Action.WATCH, (found,))


CHECK = Check(
    id="C009",
    name="budget-over-context",
    family=Family.CONFIG,
    fault="Prompt budget and completion budget together are larger than the context.",
    why="Completions of long prompts are cut before the budget, by the engine's context and not by the setting that is "
    "read as the limit. They count as truncated or not, depending on how a trainer counts, and their rewards are lost.",
    needs=Needs(config=("token_budget", "context_length")),
    thresholds=(Threshold("over", 0, "tokens", SourceKind.DEFINITION, "prompt and completion share the context"),),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Raise the context length, or lower the prompt budget", "context_length", "raise"),
                Remedy("Or plan for a smaller completion budget", "token_budget", "lower"),
            ),
            verify=(Verify("few completions are cut", "truncated_frac", "<", 0.05, 20),),
        ),
    },
    look_alikes=(LookAlike("A prompt budget that no prompt comes near", "the longest prompt of the data"),),
    sources=("docs/evidence.md: Settings that do not fit each other",),
)
