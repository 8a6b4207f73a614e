"""T002: training reward and held-out score are both near their maximum."""

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
    NotApplicable,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt, now, onset_of
from rlvitals.checks.reward_saturated import top_metric
from rlvitals.checks.scale import reward_scale
from rlvitals.view import Held, View


def best_known(view: View) -> tuple[str, Held] | None:
    """Return the held-out accuracy with the most evaluations, None where none is a fraction."""
    fractions = {
        n: h for n, h in view.evals.items() if h.metric == "accuracy" and np.all((h.score >= 0) & (h.score <= 1))
    }
    return max(fractions.items(), key=lambda item: item[1].step.size) if fractions else None


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    held = best_known(view)
    if held is None:
        return NotApplicable("no held-out score is a fraction of right answers, so 'high' has no meaning here")
    metric, low, top = top_metric(view)
    level, limit = now(view, metric, 20), limits["solved_share"]
    if not top > low:
        return Clear(f"{metric} has not moved, so its maximum is not known")
    place = (level.mean - low) / (top - low)
    name, scores = held
    last, edge = float(scores.score[-1]), limits["held_out_high"].value
    if place < limit.value or last < edge:
        return Clear(
            f"{metric} is at {place:.0%} of its range (limit {limit.value:.0%}) and held-out {name} at {last:.3g} "
            f"(limit {edge:.3g})"
        )
    cut = low + limit.value * (top - low)
    return Fired(
        Finding(
            f"The task is solved: {metric} is {fmt(level.mean)} of at most {fmt(top)} and held-out {name} is "
            f"{last:.3g}",
            Action.FINISH,
            Confidence.HIGH if reward_scale(view).known or metric == "success_frac" else Confidence.MEDIUM,
            onset_of(view, metric, cut, float("inf")),
            (
                Evidence(
                    metric,
                    f"{metric} is {fmt(level.mean)} over the last {level.n} logged steps, {place:.0%} of the range "
                    f"{fmt(low)} to {fmt(top)} (limit {limit})",
                    place,
                    "of range",
                    level.steps,
                    limit,
                    ">=",
                ),
                Evidence(
                    f"held-out/{name}",
                    f"held-out {name} is {last:.3g} at step {int(scores.step[-1])}, from {scores.score[0]:.3g} at step "
                    f"{int(scores.step[0])} (limit {limits['held_out_high']})",
                    last,
                    "fraction",
                    (int(scores.step[0]), int(scores.step[-1])),
                    limits["held_out_high"],
                    ">=",
                    float(scores.score[0]),
                ),
            ),
        )
    )


CHECK = Check(
    id="T002",
    name="task-solved",
    family=Family.TASK,
    fault="The training tasks are solved and the held-out score is high too: nothing is left to learn here.",
    why="More steps on solved tasks add tied groups and invite exploitation of what the reward does not measure. "
    "With a high held-out score this is the good end of a run (runbook: stop or raise the difficulty).",
    needs=Needs(all_of=("held-out",), any_of=("success_frac", "reward_mean"), rows=1),
    thresholds=(
        Threshold(
            "solved_share", 0.95, "of the reward range", SourceKind.CONVENTION, "GRPO health-check runbook: near max"
        ),
        Threshold(
            "held_out_high", 0.9, "fraction", SourceKind.CONVENTION, "GRPO health-check runbook: held-out also high"
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Stop and keep the checkpoint with the best held-out score", "", ""),
                Remedy(
                    "Or raise the difficulty: a harder tier, fewer prompts that are always solved",
                    "curriculum",
                    "raise",
                ),
            ),
            verify=(Verify("the reward has headroom again after harder tasks", "all_right_frac", "<", 0.5, 20),),
        )
    },
    leads_to=("R009", "S001", "H003", "R010"),
    look_alikes=(
        LookAlike("reward near its maximum from the first step", "R007: verifier or tasks, not learning"),
        LookAlike("reward near its maximum, held-out flat or falling", "H001 and H002: reward hacking"),
    ),
    sources=("GRPO health-check runbook: task solved", "docs/false-alarms.md: 37"),
)
