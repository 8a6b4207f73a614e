"""C005: a reference model is held although the KL term is off."""

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


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    config, limit = view.config, limits["coefficient"]
    if config.loads_reference is None:
        return NotApplicable("the config does not say whether a reference is loaded")
    if not config.loads_reference:
        return NotApplicable("no reference is loaded")
    if config.kl_coef is None:
        return NoData(("kl_coef",))
    if config.kl_coef > limit.value:
        return Clear(f"{shown(view, 'kl_coef')} uses the reference; limit {limit}")
    text = f"{shown(view, 'loads_reference')} with {shown(view, 'kl_coef')}: the reference is only measured; {limit}"
    found = setting(view, "kl_coef", text, config.kl_coef, "coefficient", limit, "==")
    logged = "its KL is logged" if view.has("kl_ref") else "and its KL is not even logged"
    summary = f"a reference model is held without a KL term: it costs memory and a pass per step, {logged}"
    return finding(view, summary, Action.NOTE, (found,))


CHECK = Check(
    id="C005",
    name="reference-without-kl",
    family=Family.CONFIG,
    fault="A reference model is held although the KL coefficient is 0.",
    why="With a coefficient of 0 the reference changes nothing in training. It costs its memory and one forward pass "
    "per step. That is worth it only as a gauge: the KL to the reference is then logged.",
    needs=Needs(),
    thresholds=(Threshold("coefficient", 0, "coefficient", SourceKind.DEFINITION, "a weight of 0 adds nothing"),),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Keep it if you read the logged KL; else unload the reference", "loads_reference", "check"),
                Remedy("Or set a small KL coefficient on purpose", "kl_coef", "raise"),
            ),
            verify=(Verify("the step time falls", "step_time_s", "not rising", None, 20),),
        ),
    },
    look_alikes=(LookAlike("A gauge on purpose: KL is logged and read", "kl_ref is logged"),),
    sources=("docs/evidence.md: Settings that do not fit each other",),
)
