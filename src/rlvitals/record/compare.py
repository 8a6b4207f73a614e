"""Compare runs honestly: pairs, arms of several seeds, and the checkpoint that held-out scores support."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlvitals.conclude import diagnose
from rlvitals.errors import InputError, Problem
from rlvitals.record.arms import LEAST_SEEDS, ArmResult, Contrast, arm_result, contrast
from rlvitals.record.pair import Pair
from rlvitals.record.pair import compare as compare_pair
from rlvitals.record.selection import Choice, choose
from rlvitals.schema import Float64, Run

LAST_ROWS = 20  # rows whose mean reward stands for a run without held-out scores (convention)
MAX_PAIRS = 6  # pairs that are shown step by step


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answer to "which is better, and where did they part".

    Attributes:
        scored_on: what the arms' scores are; training reward is named as such and never decides a winner.
    """

    headline: str
    scored_on: str
    pairs: tuple[Pair, ...]
    arms: tuple[ArmResult, ...]
    contrasts: tuple[Contrast, ...]
    choices: Mapping[str, tuple[Choice, ...]]


def compare(arms: Mapping[str, Sequence[Run]]) -> Comparison:
    """Compare arms, each one run or several seeds. Raises InputError for fewer than two arms."""
    if len(arms) < 2:
        raise InputError(Problem("nothing to compare", "compare", f"{len(arms)} run", "two runs or arms, or more"))
    names = list(arms)
    first = {name: runs[0] for name, runs in arms.items()}
    diagnoses = {name: diagnose(run) for name, run in first.items()}
    base = names[0]
    pairs = tuple(
        compare_pair(first[base], first[other], diagnoses[base], diagnoses[other]) for other in names[1 : MAX_PAIRS + 1]
    )
    scored = _scores(arms)
    results = tuple(replace(arm_result(n, s[n]), scored_on=on) for on, s in scored.items() for n in names if n in s)
    contrasts = tuple(
        replace(_chance_of_seeds(contrast(o, base, s)), scored_on=on)
        for on, s in scored.items()
        for o in names[1:]
        if base in s and o in s
    )
    scored_on = "; ".join(scored) or "nothing that all runs share"
    if scored_on.startswith("training reward"):
        contrasts = tuple(_unsupported(c) for c in contrasts)
    choices = {
        run.name: tuple(c for c in map(choose, run.evals.values()) if c is not None)
        for runs in arms.values()
        for run in runs
        if run.evals
    }
    return Comparison(_headline(contrasts, pairs), scored_on, pairs, results, contrasts, choices)


def _chance_of_seeds(found: Contrast) -> Contrast:
    """Return a contrast without a chance where an arm has one seed: whether that one won is 0 or 1, no chance."""
    chance = found.probability_of_improvement
    if math.isfinite(chance.low):
        return found
    return replace(found, probability_of_improvement=replace(chance, value=math.nan))


def _unsupported(found: Contrast) -> Contrast:
    why = "only the training reward is there: it is a diagnostic, never a selection criterion (why GRPO training fails)"
    return replace(found, winner="", because=why)


def _scores(arms: Mapping[str, Sequence[Run]]) -> dict[str, dict[str, Float64]]:
    """Return float64[seeds, tasks] per arm: last held-out scores on the sets that every run has, else the reward.

    Accuracies of several sets are averaged; a held-out reward has a scale of its own and stands by itself.
    """
    runs = [run for group in arms.values() for run in group]
    shared = sorted(set.intersection(*({n for n, e in run.evals.items() if e.step.size} for run in runs)))
    whole = [n for n in shared if all(np.isfinite(run.evals[n].score[-1]) for run in runs)]
    alike = [n for n in whole if all(run.evals[n].metric == "accuracy" for run in runs)]
    found = {}
    for names in (alike, *([n] for n in whole if n not in alike)):
        if names:
            found[f"last held-out score on {', '.join(names)}"] = {
                arm: np.array([[float(run.evals[name].score[-1]) for name in names] for run in group])
                for arm, group in arms.items()
            }
    if found:
        return found
    if all(run.has("reward_mean") for run in runs):
        rewards = {
            arm: np.array([[float(np.nanmean(run.columns["reward_mean"][-LAST_ROWS:]))] for run in group])
            for arm, group in arms.items()
        }
        return {f"training reward over the last {LAST_ROWS} rows (no held-out set that all runs share)": rewards}
    return {}


def _headline(contrasts: Sequence[Contrast], pairs: Sequence[Pair]) -> str:
    parts = []
    several = len({c.scored_on for c in contrasts}) > 1
    for c in contrasts:
        spread = f"{c.difference.value:+.3g}"
        if math.isfinite(c.difference.low):
            spread += f" (95% interval {c.difference.low:.3g} to {c.difference.high:.3g})"
        said = f"{c.winner} is better" if c.winner else "no winner can be named"
        more = f"; about {c.seeds_needed} seeds per arm would tell a difference this large" if c.seeds_needed else ""
        on = f" ({c.scored_on})" if several else ""
        parts.append(f"{c.a} against {c.b}{on}: {spread}; {said}: {c.because}{'' if c.winner else more}")
    for pair in pairs:
        lasting = [p for p in pair.partings if p.lasting >= 0]
        if lasting:
            first = lasting[0]
            parts.append(f"{pair.a} and {pair.b} part first in {first.metric}, at step {first.lasting}")
        elif pair.common_steps and not pair.partings:
            parts.append(f"{pair.a} and {pair.b} are the same on all {pair.common_steps} common steps")
    return ". ".join(parts) + "." if parts else "Nothing that both log."


__all__ = ["LEAST_SEEDS", "Comparison", "compare"]
