"""C012: rollouts are used for several updates by a loss without an importance ratio."""

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

NO_RATIO = frozenset({"reinforce", "gpg", "reinforce_baseline"})


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    config, limit = view.config, limits["updates"]
    loss = (config.loss_type or "").lower()
    if loss not in NO_RATIO:
        return NotApplicable(f"the {loss or 'unnamed'} loss has an importance ratio")
    if config.updates_per_rollout is None:
        return NoData(("updates_per_rollout",))
    updates = config.updates_per_rollout
    if updates <= limit.value:
        return Clear(f"{shown(view, 'updates_per_rollout')}: every update is on policy; limit {limit}")
    text = (
        f"{shown(view, 'loss_type')} with {shown(view, 'updates_per_rollout')}: from the second update on the rollouts "
        f"are another policy's; limit {limit}"
    )
    found = setting(view, "updates_per_rollout", text, updates, "updates", limit, ">")
    summary = f"the {loss} loss uses each rollout batch for {updates:g} updates without an importance ratio"
    return finding(view, summary, Action.WATCH, (found,))


CHECK = Check(
    id="C012",
    name="reuse-without-ratio",
    family=Family.CONFIG,
    fault="Rollouts are used for several updates by a loss that has no importance ratio.",
    why="The policy gradient without a ratio is right only for rollouts of the current policy. From the second update "
    "of a batch on it is biased, and nothing bounds how far one batch can push.",
    needs=Needs(),
    thresholds=(Threshold("updates", 1, "updates", SourceKind.DEFINITION, "the policy gradient is on policy"),),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Make one update per rollout batch", "updates_per_rollout", "lower"),
                Remedy("Or choose a loss with a clipped ratio", "loss_type", "set"),
            ),
            verify=(Verify("the gradient norm stays level", "grad_norm", "not rising", None, 50),),
        ),
    },
    look_alikes=(LookAlike("Several micro-batches that add up to one update", "gradient accumulation"),),
    sources=(
        "docs/evidence.md: Settings that do not fit each other",
        "2504.02546",
    ),
)
