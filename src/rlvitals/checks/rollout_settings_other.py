"""O007: rollouts carry other sampler settings than the run was configured with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlvitals.check import (
    Action,
    Check,
    Clear,
    Confidence,
    Evidence,
    Family,
    Finding,
    Fired,
    LookAlike,
    Needs,
    NoData,
    Onset,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.rollout_common import Recent, recent
from rlvitals.view import View

NAMES = ("temperature", "top_p", "token_budget")
UNITS = {"temperature": "temperature", "top_p": "probability", "token_budget": "tokens"}


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    limit, seen, found = limits["difference"], [], []
    for name in NAMES:
        wanted = getattr(view.config, name)
        low, high = (recent(view, f"rollouts/{name}_{end}") for end in ("min", "max"))
        if wanted is None or not low.n or not high.n:
            continue
        wanted = float(wanted)
        off = _off(low, wanted, limit.value) | _off(high, wanted, limit.value)
        text = f"{name} is {_range(low, high)} in the rollouts, {wanted:g} in the config"
        seen.append(text)
        if off.mean() > limits["steps"].value:
            found.append(_evidence(view, name, text, low, high, wanted, limit))
    if not seen:
        return NoData(NAMES, "no setting is known both from the config and from the rollouts")
    if not found:
        return Clear("; ".join(seen))
    onsets = [_onset(view, e.metric, float(getattr(view.config, _name(e.metric)))) for e in found]
    first = min(onsets, key=lambda o: (o.first, o.last))
    what = "rollouts are sampled with other settings than configured: " + "; ".join(
        f"{_name(e.metric)} {e.observed:g} instead of {e.before:g}" for e in found
    )
    return Fired(Finding(what, Action.ADJUST, Confidence.HIGH, first, tuple(found)))


def _name(metric: str) -> str:
    return metric.removeprefix("rollouts/").removesuffix("_min").removesuffix("_max")


def _off(now: Recent, wanted: float, slack: float) -> np.ndarray:
    return np.asarray(np.abs(now.values - wanted) > slack * max(abs(wanted), 1e-9))


def _range(low: Recent, high: Recent) -> str:
    least, most = float(low.values.min()), float(high.values.max())
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def _evidence(view: View, name: str, text: str, low: Recent, high: Recent, wanted: float, limit: Threshold) -> Evidence:
    side = low if abs(float(low.values[-1]) - wanted) >= abs(float(high.values[-1]) - wanted) else high
    worst = float(side.values[int(np.argmax(np.abs(side.values - wanted)))])
    whole = f"{text}, over steps {side.span[0]}-{side.span[1]}; limit {limit}"
    return Evidence(side.metric, whole, worst, UNITS[name], side.span, limit, "!=", wanted)


def _onset(view: View, metric: str, wanted: float) -> Onset:
    """Return the step from which the setting has been another one, at the resolution that is kept."""
    steps, values = view.recent(metric)
    same = np.flatnonzero(np.abs(values - wanted) <= 1e-9 * max(abs(wanted), 1.0))
    if same.size == 0:
        return Onset(view.first_step, int(steps[0]))
    at = min(int(same[-1]) + 1, steps.size - 1)
    return Onset(int(steps[same[-1]]), int(steps[at]))


CHECK = Check(
    id="O007",
    name="settings-not-intended",
    family=Family.ROLLOUT,
    fault="The rollouts were sampled with another temperature, top-p or token budget than the run was configured with.",
    why="A server keeps its own defaults, a generation config of the model overrides the call, or one of several "
    "samplers was started with old settings. The trainer scores at the configured values what was drawn at others.",
    needs=Needs(any_of=tuple(f"rollouts/{n}_min" for n in NAMES), rows=3),
    thresholds=(
        Threshold(
            "difference", 1e-3, "of the configured value", SourceKind.DEFINITION, "the setting is what was asked for"
        ),
        Threshold(
            "steps", 0.2, "of the last 20 steps", SourceKind.CONVENTION, "a lone step of another source is no pattern"
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Print the settings that each sampler process has in force", "temperature", "check"),
                Remedy("Check the model's generation config: it may override the call", "", "check"),
            ),
            verify=(Verify("rollouts carry the configured settings", "rollouts/temperature_min", "", None, 10),),
        ),
    },
    leads_to=("O001", "Y002", "L001", "E001", "E003"),
    patience=2,
    look_alikes=(
        LookAlike("Evaluation rollouts with their own settings", "held-out rollouts are left out"),
        LookAlike("A budget that grows by plan", "the config must name it; then the config's value counts"),
    ),
    sources=("Why GRPO training fails: sampling configuration", "docs/evidence.md: What no curve shows"),
)
