"""C007: tokens are sampled at another temperature than the trainer scores them with."""

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

EQUAL = 1e-6  # two settings that are the same number


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    config, limit = view.config, limits["difference"]
    if config.temperature is None:
        return NoData(("temperature",))
    if config.trainer_temperature is None:
        if config.temperature == 1.0:
            return Clear(f"{shown(view, 'temperature')}: there is nothing to scale; limit {limit}")
        return NoData(("trainer_temperature",), "whether the trainer divides its logits by it is not known")
    apart = abs(config.temperature - config.trainer_temperature)
    if apart <= EQUAL:
        return Clear(f"sampler and trainer both use temperature {config.temperature:g}; limit {limit}")
    text = (
        f"{shown(view, 'temperature')}, but the trainer scores at {shown(view, 'trainer_temperature')}; limit {limit}"
    )
    found = setting(view, "temperature", text, apart, "difference", limit, ">")
    summary = (
        f"rollouts are sampled at temperature {config.temperature:g} and scored at {config.trainer_temperature:g}: "
        "training is off policy from the first step"
    )
    return finding(view, summary, Action.WATCH, (found,))


CHECK = Check(
    id="C007",
    name="temperature-mismatch",
    family=Family.CONFIG,
    fault="Rollouts are sampled at another temperature than the trainer uses for its log-probabilities.",
    why="The policy that earned the rewards is the one at the sampling temperature. Scored at another, the ratio "
    "spreads around 1 before any update, and the gradient belongs to a policy that nobody sampled from.",
    needs=Needs(),
    thresholds=(
        Threshold("difference", 0, "temperature", SourceKind.DEFINITION, "on policy both are the same distribution"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Sample at the temperature that the trainer scores with", "temperature", "set"),
                Remedy("Or divide the trainer's logits by the sampling temperature", "trainer_temperature", "set"),
            ),
            verify=(Verify("the ratio is 1 at the first update of a batch", "ratio_mean", "<", 1.001, 10),),
        ),
    },
    leads_to=("O001", "U005", "Y002"),
    look_alikes=(LookAlike("A sampling temperature other than 1 that both sides use", "the trainer's temperature"),),
    sources=(
        "docs/evidence.md: What no curve shows",
        "docs/evidence.md: Trainer facts worth knowing",
        "trl#4159",
        "prime-rl PR#697",
    ),
)
