"""C014: the warm-up is as long as the run: the learning rate never reaches its peak."""

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
    config, limit = view.config, limits["share"]
    if config.warmup_steps is None or config.planned_steps is None:
        missing = tuple(f for f in ("warmup_steps", "planned_steps") if getattr(config, f) is None)
        return NoData(missing)
    share = config.warmup_steps / config.planned_steps
    told = f"{shown(view, 'warmup_steps')} of {shown(view, 'planned_steps')}"
    if share < limit.value:
        return Clear(f"{told}: {share:.0%} of the run; limit {limit}")
    text = f"{told}: the learning rate rises through {min(share, 1):.0%} of the run; limit {limit}"
    found = setting(view, "warmup_steps", text, share, "share of the run", limit, ">")
    summary = f"the warm-up of {config.warmup_steps} steps is as long as the run: the rate never reaches its peak"
    return finding(view, summary, Action.WATCH, (found,))


CHECK = Check(
    id="C014",
    name="warmup-over-run",
    family=Family.CONFIG,
    fault="The warm-up is as long as the run: the learning rate never reaches its peak.",
    why="During the warm-up the learning rate rises from 0. When it lasts as long as the run, half of the planned "
    "learning is left out and the rate is highest when the run ends: the result says little about the settings.",
    needs=Needs(config=("warmup_steps", "planned_steps")),
    thresholds=(Threshold("share", 1, "share of the run", SourceKind.DEFINITION, "the peak lies after the warm-up"),),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Shorten the warm-up, to 5% of the run for example", "warmup_steps", "lower"),
                Remedy("Or plan for more steps", "planned_steps", "raise"),
            ),
            verify=(Verify("the learning rate stops rising", "learning_rate", "not rising", None, 50),),
        ),
    },
    leads_to=("D007",),
    look_alikes=(LookAlike("A warm-up counted in samples", "the trainer's unit of the setting"),),
    sources=("docs/false-alarms.md: 4",),
)
