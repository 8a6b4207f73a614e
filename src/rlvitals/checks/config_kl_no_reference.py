"""C004: a KL term is switched on and there is no reference to measure it against."""

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

MIN_ROWS = 20


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    config, limit = view.config, limits["coefficient"]
    if config.kl_coef is None:
        return NoData(("kl_coef",))
    if config.kl_coef <= limit.value:
        return NotApplicable("the KL coefficient is 0")
    zeros = view.count("kl_ref", raw=True) if view.placeholder("kl_ref") else 0
    if config.loads_reference is not False:
        if config.loads_reference is None and zeros >= MIN_ROWS:
            return NoData(("loads_reference",), "KL is 0 in every row; nothing says if a reference is loaded")
        told = "a reference is loaded" if config.loads_reference else "nothing says that the reference is missing"
        return Clear(f"{shown(view, 'kl_coef')}; {told}; limit {limit}")
    text = f"{shown(view, 'kl_coef')} with {shown(view, 'loads_reference')}: the term has nothing to measure; {limit}"
    evidence = [setting(view, "kl_coef", text, config.kl_coef, "coefficient", limit, ">")]
    summary = f"the KL coefficient is {config.kl_coef:g}, but no reference model is loaded: there is no leash"
    if zeros < MIN_ROWS:
        return finding(view, summary, Action.WATCH, tuple(evidence), confidence=Confidence.MEDIUM)
    seen = f"kl_ref is exactly 0 in all of {zeros} logged rows; a policy that moved would show; limit {limits['kl']}"
    evidence.append(setting(view, "kl_ref", seen, 0.0, "nats/token", limits["kl"], "=="))
    return finding(view, summary, Action.ADJUST, tuple(evidence))


CHECK = Check(
    id="C004",
    name="kl-without-reference",
    family=Family.CONFIG,
    fault="A KL coefficient is set, but no reference model is loaded.",
    why="The KL term measures the distance to a reference. Without one it is 0, or taken against the policy itself: "
    "the run trains without the leash that its settings promise, and a logged 0 looks like perfect stability.",
    needs=Needs(),
    thresholds=(
        Threshold("coefficient", 0, "coefficient", SourceKind.DEFINITION, "a KL needs two policies"),
        Threshold("kl", 0, "nats/token", SourceKind.DEFINITION, "the KL of a policy to itself"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Load the reference model", "loads_reference", "set"),
                Remedy("Or set the coefficient to 0 and train without a KL term on purpose", "kl_coef", "lower"),
            ),
            verify=(Verify("KL to the reference is above 0 after a few updates", "kl_ref", ">", 0.0, 20),),
        ),
    },
    look_alikes=(LookAlike("LoRA, where the base model without the adapter is the reference", "uses_lora"),),
    sources=(
        "docs/evidence.md: Version and unit traps",
        "docs/false-alarms.md: 4",
    ),
)
