"""D008: environment, reward or sampler configuration are another version than before, or mixed within a step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rlvitals import stats
from rlvitals.check import (
    Action,
    Check,
    Clear,
    Confidence,
    Evidence,
    Family,
    Finding,
    Fired,
    Fold,
    LookAlike,
    Needs,
    Onset,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt
from rlvitals.view import Chunk, View

KINDS = ("env", "reward", "sampler")
AROUND = 20  # rows before and after the change in which the reward is compared


@dataclass(frozen=True, slots=True)
class Seen:
    """Per kind: last code, last step that had it, (steps around the latest change), number of changes, mixed steps."""

    last: tuple[float, ...] = (math.nan,) * len(KINDS)
    step: tuple[int, ...] = (-1,) * len(KINDS)
    changed: tuple[tuple[int, int], ...] = ((-1, -1),) * len(KINDS)
    changes: tuple[int, ...] = (0,) * len(KINDS)
    mixed: tuple[int, ...] = (0,) * len(KINDS)


def _step(state: Seen, chunk: Chunk) -> Seen:
    last, step, changed = list(state.last), list(state.step), list(state.changed)
    changes, mixed = list(state.changes), list(state.mixed)
    for k, kind in enumerate(KINDS):
        code, count = chunk.col(f"rollouts/{kind}_version_code"), chunk.col(f"rollouts/{kind}_versions")
        mixed[k] += int((count > 1).sum())
        for i in np.flatnonzero(np.isfinite(code) & ~(count > 1)):
            if step[k] >= 0 and code[i] != last[k]:
                changed[k], changes[k] = (step[k], int(chunk.steps[i])), changes[k] + 1
            last[k], step[k] = float(code[i]), int(chunk.steps[i])
    return Seen(tuple(last), tuple(step), tuple(changed), tuple(changes), tuple(mixed))


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    state: Seen = view.state
    known = [k for k, kind in enumerate(KINDS) if view.has(f"rollouts/{kind}_versions")]
    mixed = [k for k in known if state.mixed[k] >= limits["mixed_steps"].value and KINDS[k] != "sampler"]
    changed = [k for k in known if state.changes[k] >= limits["changes"].value]
    if not mixed and not changed:
        return Clear(", ".join(f"one {KINDS[k]} version all run long" for k in known))
    k = (changed or mixed)[0]
    kind = KINDS[k]
    if not changed:
        return Fired(_mixed(view, kind, state.mixed[k], limits["per_step"]))
    before, after = state.changed[k]
    limit = limits["changes"]
    text = (
        f"the {kind} version changed {state.changes[k]} times, last between steps {before} and {after}; limit {limit}"
    )
    shown = view.examples(f"{kind}-version", 2)
    evidence = [Evidence(f"rollouts/{kind}_version_code", text, float(state.changes[k]), limit.unit, (before, after),
                         limit, ">=", 0.0, shown)]  # fmt: skip
    moved = _reward_moved(view, after, limits["reward_z"])
    what = f"the {kind} is another version since step {after}"
    if moved is not None:
        what = f"{what}, and the reward moved with it"
        evidence.append(moved)
    action = Action.ADJUST if moved is not None and kind != "sampler" else Action.WATCH
    return Fired(Finding(what, action, Confidence.HIGH, Onset(before, after), tuple(evidence), kind))


def _mixed(view: View, kind: str, steps: int, limit: Threshold) -> Finding:
    metric = f"rollouts/{kind}_versions"
    where, most = (view.first_seen(metric), view.last_seen(metric)), view.extremes(metric)[2]
    text = f"{steps} steps hold rollouts of up to {fmt(most)} {kind} versions; limit {limit}"
    evidence = Evidence(metric, text, most, "versions", where, limit, ">", 1.0, view.examples(f"{kind}-version", 3))
    what = f"rollouts of one step come from up to {fmt(most)} {kind} versions: their rewards are not comparable"
    return Finding(what, Action.ADJUST, Confidence.HIGH, Onset(*where), (evidence,), "mixed")


def _reward_moved(view: View, at: int, limit: Threshold) -> Evidence | None:
    """Return the evidence that the reward level differs right before and after the change."""
    steps, values = view.recent("reward_mean")
    early, late = values[steps < at][-AROUND:], values[steps >= at][:AROUND]
    if early.size < 5 or late.size < 5:
        return None
    found = stats.change(early, late, z=1.0)
    error = found.high - found.difference
    z = abs(found.difference) / max(error, abs(found.difference) / 1000) if found.difference else 0.0
    if z < limit.value:
        return None
    text = (
        f"reward_mean went from {fmt(float(early.mean()))} to {fmt(float(late.mean()))} there, {fmt(z)} "
        f"standard errors; limit {limit}"
    )
    span = (int(steps[steps < at][-early.size]), int(steps[steps >= at][late.size - 1]))
    return Evidence("reward_mean", text, z, "standard errors", span, limit, ">", float(early.mean()))


CHECK = Check(
    id="D008",
    name="version-changed",
    family=Family.DATA,
    fault="The environment, the reward or the sampler's configuration changed while the run went on.",
    why="Steps before and after such a change measure different things under one name: a jump of the reward there is "
    "no learning and no collapse. Two reward versions within one step make the rollouts of a group incomparable.",
    needs=Needs(any_of=tuple(f"rollouts/{k}_versions" for k in KINDS), rows=3),
    thresholds=(
        Threshold("changes", 1, "changes", SourceKind.DEFINITION, "one run, one environment and one reward"),
        Threshold("per_step", 1, "versions", SourceKind.DEFINITION, "rewards of one group need one measure"),
        Threshold(
            "mixed_steps", 3, "steps", SourceKind.CONVENTION, "a step or two of overlap when a version is rolled out"
        ),
        Threshold(
            "reward_z",
            4,
            "standard errors",
            SourceKind.MEASURED,
            "docs/measurements.md: Change of level under AR(1) noise",
        ),
    ),
    judge=judge,
    fold=Fold(Seen(), _step),
    plans={
        "": Plan(
            remedies=(
                Remedy("Find what changed between the two versions, and whether it was meant", "", "check"),
                Remedy("Compare reward and success across the change on the same rollouts", "verifier", "check"),
            ),
            verify=(Verify("the version stays the same", "rollouts/reward_versions", "", None, 20),),
        ),
        "mixed": Plan(
            remedies=(
                Remedy("Bring all workers to one version before the next step", "", "set"),
                Remedy("Leave the steps with mixed versions out of every comparison", "", ""),
            ),
            verify=(Verify("one version per step", "rollouts/reward_versions", "<", 1.5, 10),),
        ),
    },
    leads_to=("D005", "R002", "R014", "R009", "O003", "O001", "L002", "S001"),
    look_alikes=(
        LookAlike("A rollout or two of the old version while a new one is rolled out", "fewer than three mixed steps"),
        LookAlike("A sampler restarted with the same settings", "its hash is that of the settings, not of the process"),
    ),
    sources=("docs/evidence.md: Version and unit traps", "Why GRPO training fails: termination and reset"),
)
