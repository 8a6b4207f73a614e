"""C011: a KL estimate that only works as a loss is taken off the reward."""

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

WRONG_IN_REWARD = ("k2", "k3")


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    config = view.config
    if not config.kl_in_reward:
        return NotApplicable("no KL is taken off the reward")
    if config.kl_coef == 0:
        return NotApplicable("the KL coefficient is 0")
    if config.kl_estimator is None:
        return NoData(("kl_estimator",))
    limit = limits["k1"]
    if config.kl_estimator not in WRONG_IN_REWARD:
        return Clear(f"{shown(view, 'kl_estimator')} in the reward; limit {limit}")
    text = (
        f"{shown(view, 'kl_estimator')} with {shown(view, 'kl_in_reward')}: its expected gradient there is not that of "
        f"the KL and can have the other sign; limit {limit}"
    )
    found = setting(view, "kl_estimator", text, float(config.kl_estimator[1]), "estimator", limit, "!=")
    summary = f"the KL estimate {config.kl_estimator} is taken off the reward, where only k1 pulls to the reference"
    return finding(view, summary, Action.WATCH, (found,), confidence=Confidence.MEDIUM)


CHECK = Check(
    id="C011",
    name="kl-estimator-in-reward",
    family=Family.CONFIG,
    fault="A k2 or k3 estimate of the KL is taken off the reward.",
    why="Off the reward, k1 has the gradient of the reverse KL. k3 there has the gradient of the reverse minus that of "
    "the forward KL: it can push away from the reference. As a loss it is the other way round: k2, not k1.",
    needs=Needs(),
    thresholds=(
        Threshold(
            "k1", 1, "estimator", SourceKind.PAPER, "2510.01555 and 2512.02556: k1 in the reward, k2 or r x k3 as loss"
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Use k1 in the reward", "kl_estimator", "set"),
                Remedy("Or add the KL to the loss instead", "kl_in_reward", "set"),
            ),
            verify=(Verify("KL to the reference settles", "kl_ref", "not rising", None, 50),),
        ),
    },
    look_alikes=(LookAlike("k3 as a loss term, GRPO's own form", "the KL is not in the reward"),),
    sources=(
        "docs/evidence.md: KL estimators",
        "2510.01555",
        "2512.02556",
    ),
)
