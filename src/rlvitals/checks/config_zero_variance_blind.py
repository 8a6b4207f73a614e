"""C002: the logged share of tied groups is no share: TRL made it a flag of the whole batch."""

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

TRL_FAMILY = frozenset({"TRL", "unsloth", "ms-swift"})
SWAPPED = ("0.22.0", "0.22.1")  # releases in which the two branches of scale_rewards are exchanged


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    if view.trainer.name not in TRL_FAMILY:
        return NotApplicable(f"{view.trainer.name} counts tied groups whatever its scaling")
    config, limit = view.config, limits["groups"]
    version = config.versions.get("trl", "")
    scaling = config.advantage_scaling
    if version.startswith(SWAPPED):
        return _swapped(view, version, limits)
    if not version and scaling is None and config.reward_aggregation is None:
        return NoData(("advantage_scaling",))
    field = "advantage_scaling" if scaling == "batch" else "reward_aggregation"
    if scaling != "batch" and config.reward_aggregation != "normalise then sum":
        told = shown(view, "advantage_scaling") if scaling else f"TRL {version}"
        return Clear(f"{told}: frac_reward_zero_std is a share of groups; limit {limit}")
    text = (
        f"{shown(view, field)}: frac_reward_zero_std is 1 only when the whole batch is tied, so it says nothing about "
        f"groups; limit {limit}"
    )
    found = setting(view, field, text, 1.0, "flag of the batch", limit, "!=")
    summary = f"the share of tied groups is not logged: with {shown(view, field)} it is a flag of the whole batch"
    return finding(view, summary, Action.NOTE, (found,))


def _swapped(view: View, version: str, limits: Mapping[str, Threshold]) -> Outcome:
    text = (
        f"TRL {version} exchanges scale_rewards='group' and 'batch': advantages are not divided by what is set, "
        f"and frac_reward_zero_std follows; limit {limits['groups']}"
    )
    found = setting(view, "advantage_scaling", text, 1.0, "exchanged setting", limits["groups"], "!=")
    summary = f"TRL {version} scales advantages by the other of group and batch than is set"
    return finding(view, summary, Action.WATCH, (found,), variant="swapped release")


CHECK = Check(
    id="C002",
    name="zero-variance-metric-blind",
    family=Family.CONFIG,
    fault="The logged share of tied groups is a flag of the whole batch, not a share.",
    why="TRL takes frac_reward_zero_std from the spread that it scales with. Scaled by batch, or with rewards "
    "normalised before they are summed, it is 0 until every rollout of the batch scores the same: tied groups go "
    "unseen. TRL 0.22.0 and 0.22.1 exchange the two settings.",
    needs=Needs(),
    thresholds=(Threshold("groups", 0, "", SourceKind.DEFINITION, "a share of tied groups is counted per group"),),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Log the share of tied groups yourself, from a reward function", "", ""),
                Remedy("Or scale advantages by group", "advantage_scaling", "set"),
            ),
            verify=(Verify("the share of tied groups changes from step to step", "zero_variance_frac", ">", 0.0, 50),),
        ),
        "swapped release": Plan(
            remedies=(
                Remedy("Upgrade TRL to 0.22.2 or newer", "", ""),
                Remedy("Or set scale_rewards to the other value", "advantage_scaling", "set"),
            ),
            verify=(Verify("the share of tied groups changes from step to step", "zero_variance_frac", ">", 0.0, 50),),
        ),
    },
    look_alikes=(LookAlike("A share of tied groups that really is 0", "advantages are scaled by group or not at all"),),
    sources=(
        "docs/evidence.md: Version and unit traps",
        "trl#3992",
    ),
)
