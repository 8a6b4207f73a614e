"""Reward components in a log too short for statistics, for R003: one that halves while a cheap one climbs."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rlvitals.check import Action, Clear, Confidence, Evidence, Finding, Fired, Onset, Outcome, Threshold
from rlvitals.checks.common import fmt
from rlvitals.checks.reward_parts import SHORT_ROWS, Parts
from rlvitals.view import View


def short(view: View, parts: Parts, limits: Mapping[str, Threshold]) -> Outcome:
    """Judge a log too short for statistics: only a task part that halves while a cheap one climbs, step by step."""
    length, total = view.head("length_mean"), view.head("reward_mean")
    for name in parts.truth:
        truth = view.head(name)
        if truth.size < SHORT_ROWS or not _monotone(-truth) or truth[-1] > 0.5 * truth[0]:
            continue
        for cheap in parts.cheap:
            up = view.head(cheap)
            if up.size != truth.size or not _monotone(up) or up[-1] - up[0] < limits["short_rise"].value:
                continue
            moved = length.size >= SHORT_ROWS and _monotone(-length) and length[-1] < 0.7 * length[0]
            steps = (view.first_step, view.step)
            text = (
                f"{name} fell at every logged step from {fmt(truth[0])} to {fmt(truth[-1])} while {cheap} rose at "
                f"every one "
                f"from {fmt(up[0])} to {fmt(up[-1])}"
                + (f" and completions shortened from {length[0]:.0f} to {length[-1]:.0f} tokens" if moved else "")
                + f" ({truth.size} logged steps; limit {limits['short_rise']})"
            )
            rise = limits["short_rise"]
            evidence = Evidence(name, text, float(up[-1] - up[0]), "reward", steps, rise, ">", float(up[0]))
            sure = moved and bool(total[-1] > total[0])
            return Fired(
                Finding(
                    f"The reward is earned by {cheap.partition('/')[2]} while {name.partition('/')[2] or name} falls",
                    Action.FIX if sure else Action.WATCH,
                    Confidence.MEDIUM if sure else Confidence.LOW,
                    Onset(steps[0], steps[1]),
                    (evidence,),
                    "falling",
                )
            )
    return Clear(
        f"{view.count('reward_mean')} logged steps are too few for a trend ({limits['rows'].value:.0f} needed), and "
        f"no task "
        "component halves while a cheap one climbs at every step"
    )


def _monotone(y: np.ndarray) -> bool:
    return y.size >= SHORT_ROWS and bool((np.diff(y) > 0).all()) and math.isfinite(float(y.sum()))
