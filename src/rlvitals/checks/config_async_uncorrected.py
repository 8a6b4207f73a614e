"""C013: rollouts come from older weights, and nothing corrects for it."""

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
    config, limit = view.config, limits["lag"]
    if not config.asynchronous:
        return NotApplicable("rollouts are sampled by the weights that are trained")
    if config.sampler_correction is None:
        return NoData(("sampler_correction",))
    if config.sampler_correction:
        return Clear(f"{shown(view, 'sampler_correction')}: importance weights correct for the lag; limit {limit}")
    lag = config.max_version_lag
    text = f"{shown(view, 'asynchronous')} with {shown(view, 'sampler_correction')}; limit {limit}"
    found = setting(view, "sampler_correction", text, lag if lag is not None else 1.0, "versions", limit, ">")
    summary = "rollouts are sampled by older weights and nothing corrects for it"
    return finding(view, summary, Action.WATCH, (found,), confidence=Confidence.MEDIUM)


CHECK = Check(
    id="C013",
    name="lag-without-correction",
    family=Family.CONFIG,
    fault="Training is asynchronous without importance weights or masks for the lag.",
    why="Rollouts of an older policy are trained on as if they were the current one's. In one comparison runs at most "
    "one version behind failed without a correction and learnt with truncated or clipped weights.",
    needs=Needs(),
    thresholds=(
        Threshold(
            "lag", 0, "versions", SourceKind.PAPER, "marin#8955: 2 of 128 solved without correction, 90 to 98 with one"
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Switch the sampler correction on, token-level and truncated at 2", "sampler_correction", "set"),
                Remedy("Or lower the lag that is allowed", "max_version_lag", "lower"),
            ),
            verify=(Verify("the effective sample size stays above a half", "effective_sample_frac", ">", 0.5, 50),),
        ),
    },
    look_alikes=(LookAlike("A loss whose old log-probabilities are the sampler's: its ratio corrects", "the trainer"),),
    sources=(
        "docs/evidence.md: Settings that do not fit each other",
        "marin#8955",
        "2602.17616",
    ),
)
