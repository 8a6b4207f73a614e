"""Every branch of both flowcharts, from the data to the first cause, the plan and the rollback.

The runs are a simulated healthy run with one thing changed; what is changed is written next to its branch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from benchmarks.simulate import Spec, healthy

from rlvitals.check import Rollback, Verdict
from rlvitals.conclude import diagnose
from rlvitals.diagnosis import Diagnosis
from rlvitals.plan import VERIFY_THE_VERIFIER
from rlvitals.schema import Evals, Event, EventKind, Float64, Run

N, ONSET = 400, 150


def base() -> Run:
    """A healthy run of 400 steps, 16 prompts of 8 rollouts, with a checkpoint every 50 steps and a held-out set."""
    run = healthy(Spec(11, "steady learner", "full", N, 16, 8))
    events = tuple(Event(EventKind.CHECKPOINT, s, path=f"checkpoint-{s}") for s in range(50, N + 1, 50))
    return replace(run, events=events, evals={"math": held_out(0.3, 0.5)})


def held_out(first: float, last: float, *, fall_from: int | None = None, to: float = 0.2) -> Evals:
    steps = np.arange(20, N + 1, 20)
    score = np.linspace(first, last, steps.size)
    if fall_from is not None:
        after = steps >= fall_from
        score[after] = np.linspace(score[~after][-1], to, int(after.sum()))
    return Evals("math", steps, score, np.sqrt(score * (1 - score) / 1000), 1000)


def changed(**columns: Float64 | float | Callable[[Float64], Float64]) -> Run:
    """Return the base run with columns replaced by arrays, constants or functions of the old column."""
    run = base()
    new = dict(run.columns)
    for name, value in columns.items():
        name = name.replace("__", "/")
        if callable(value):
            new[name] = value(new[name].copy())
        else:
            new[name] = np.broadcast_to(np.asarray(value, dtype=float), (N,)).copy()
    return replace(run, columns=new)


def after(values: Float64, course: Float64 | float) -> Float64:
    """Replace a series from the onset on."""
    values[ONSET:] = course
    return values


RAMP = np.linspace(0, 1, N - ONSET)
NOISE = np.random.default_rng(3).normal(0, 1, N)


def all_wrong() -> Run:
    """No rollout of any group ever succeeds."""
    flat = ("reward_mean", "reward_std", "reward_max", "reward_part__correct", "reward_part__format", "all_right_frac")
    gone = ("advantage_std", "advantage_max", "advantage_min", "grad_norm")
    run = changed(**dict.fromkeys((*flat, *gone), 0.0), zero_variance_frac=1.0, all_wrong_frac=1.0)
    return replace(run, evals={})


def verifier_default() -> Run:
    """From one step on every rollout scores exactly 0.5: the verifier is down and defaults."""
    return changed(
        reward_mean=lambda v: after(v, 0.5), reward_part__correct=lambda v: after(v, 0.5),
        reward_part__format=lambda v: after(v, 0.0), reward_std=lambda v: after(v, 0.0),
        reward_max=lambda v: after(v, 0.5), reward_min=lambda v: after(v, 0.5),
        zero_variance_frac=lambda v: after(v, 1.0), all_wrong_frac=lambda v: after(v, 0.0),
        advantage_std=lambda v: after(v, 0.0), advantage_max=lambda v: after(v, 0.0),
        advantage_min=lambda v: after(v, 0.0), grad_norm=lambda v: after(v, 0.0),
    )  # fmt: skip


def tied_groups() -> Run:
    """Nine of ten groups are tied and most of them all wrong, from the onset on."""
    level = 0.9 + 0.02 * NOISE[ONSET:]
    return changed(
        zero_variance_frac=lambda v: after(v, np.clip(level, 0, 1)),
        all_wrong_frac=lambda v: after(v, np.clip(level - 0.05, 0, 1)), all_right_frac=lambda v: after(v, 0.05),
        reward_mean=lambda v: after(v, np.clip(0.07 + 0.01 * NOISE[ONSET:], 0, 1)),
        reward_part__correct=lambda v: after(v, np.clip(0.07 + 0.01 * NOISE[ONSET:], 0, 1)),
        reward_part__format=lambda v: after(v, 0.0),
        advantage_std=lambda v: after(v, np.sqrt(0.1 * 7 / 8)),
    )  # fmt: skip


def sampling_drift() -> Run:
    """The sampler truncates with top-p: the mean ratio of trainer to sampler is the kept mass; gaps are -log of it."""
    return changed(
        sampler_ratio_mean=lambda v: after(v, 0.93 + 0.002 * NOISE[ONSET:]),
        logprob_gap_mean=lambda v: after(v, 0.074 + 0.002 * NOISE[ONSET:]),
    )


def truncation() -> Run:
    """Completions run into the budget: 60% are cut, and reward falls with it."""
    return changed(
        truncated_frac=lambda v: after(v, np.clip(0.05 + 0.6 * np.minimum(RAMP * 4, 1) + 0.02 * NOISE[ONSET:], 0, 1)),
        length_mean=lambda v: after(v, v[:ONSET].mean() * (1 + 1.5 * np.minimum(RAMP * 4, 1))),
        reward_mean=lambda v: after(v, v[ONSET - 20 : ONSET].mean() * (1 - 0.7 * np.minimum(RAMP * 4, 1))),
        reward_part__correct=lambda v: after(v, v[ONSET - 20 : ONSET].mean() * (1 - 0.7 * np.minimum(RAMP * 4, 1))),
    )  # fmt: skip


def kl_with_reward() -> Run:
    """KL explodes while the reward rises and held-out falls: hacking."""
    blow_up = np.exp(6 * RAMP) * np.exp(0.1 * NOISE[ONSET:])
    run = changed(
        kl_ref=lambda v: after(v, (v[ONSET - 20 : ONSET].mean() + 1e-3) * blow_up),
        reward_mean=lambda v: after(v, v[ONSET - 20 : ONSET].mean() + 0.4 * RAMP),
        reward_part__correct=lambda v: after(v, v[ONSET - 20 : ONSET].mean() + 0.4 * RAMP),
    )  # fmt: skip
    return replace(run, evals={"math": held_out(0.3, 0.5, fall_from=ONSET)})


def kl_alone() -> Run:
    """KL explodes, reward and held-out as before: drift."""
    return changed(kl_ref=lambda v: after(v, (v[ONSET - 20 : ONSET].mean() + 1e-3) * np.exp(6 * RAMP)))


def stale_weights() -> Run:
    """The sampler stops receiving weights: the gap jumps and the lag grows."""
    return changed(
        logprob_gap_mean=lambda v: after(v, v[:ONSET].mean() * (8 + 10 * RAMP)),
        prob_gap_mean=lambda v: after(v, v[:ONSET].mean() * (8 + 10 * RAMP)),
        version_lag_mean=lambda v: after(v, np.arange(1, N - ONSET + 1, dtype=float)),
        version_lag_max=lambda v: after(v, np.arange(1, N - ONSET + 1, dtype=float)),
    )  # fmt: skip


def hacking() -> Run:
    """Training reward rises to its maximum while held-out falls; KL stays quiet."""
    run = changed(
        reward_mean=lambda v: after(v, v[ONSET - 20 : ONSET].mean() + 0.4 * np.minimum(RAMP * 2, 1)),
        reward_part__correct=lambda v: after(v, v[ONSET - 20 : ONSET].mean() + 0.4 * np.minimum(RAMP * 2, 1)),
    )
    return replace(run, evals={"math": held_out(0.3, 0.5, fall_from=ONSET)})


def entropy_collapse() -> Run:
    """Entropy falls to 1% of its level within 60 steps, reward stalls."""
    course = np.exp(np.log(0.01) * np.minimum(RAMP * 4, 1))
    return changed(entropy=lambda v: after(v, v[ONSET - 10 : ONSET].mean() * course * np.exp(0.05 * NOISE[ONSET:])))


def solved() -> Run:
    """Reward at its maximum, held-out at 0.95, nearly every group all right."""
    top = np.clip(1 - 0.004 * np.abs(NOISE[ONSET:]), 0, 1)
    run = changed(
        reward_mean=lambda v: after(np.clip(np.linspace(0.4, 0.99, N), 0, 1), top),
        reward_part__correct=lambda v: after(np.clip(np.linspace(0.4, 0.99, N), 0, 1), top),
        reward_part__format=1.0, reward_max=1.0, reward_min=lambda v: after(v, 1.0),
        zero_variance_frac=lambda v: after(v, 0.97), all_right_frac=lambda v: after(v, 0.97),
        all_wrong_frac=lambda v: after(v, 0.0), advantage_std=lambda v: after(v, np.sqrt(0.03 * 7 / 8)),
        reward_std=lambda v: after(v, 0.01),
    )  # fmt: skip
    run = replace(run, config=replace(run.config, reward_min=0.0, reward_max=1.0))
    return replace(run, evals={"math": held_out(0.5, 0.96)})


@dataclass(frozen=True)
class Branch:
    make: Callable[[], Run]
    first: tuple[str, ...]  # ids of which one must be named first
    verdicts: tuple[Verdict, ...]
    plan_has: tuple[str, ...] = ()
    plan_lacks: tuple[str, ...] = ()
    rollback: Rollback | None = None


ALARM = (Verdict.ACT, Verdict.STOP)
BRANCHES = {
    "triage 1: base success about 0 -> easier tier or SFT": Branch(
        all_wrong, ("T001",), ALARM, ("supervised",), ("KL coefficient",)),
    "triage 2: verifier defaults -> fix extraction": Branch(verifier_default, ("R001", "R002"), ALARM, ("verifier",)),
    "triage 3: zero-variance groups -> difficulty, mixture, diversity": Branch(
        tied_groups, ("S001", "R002", "R014"), ALARM),
    "triage 4: wrong sampling settings -> fix the sampler": Branch(
        sampling_drift, ("O001",), (*ALARM, Verdict.WATCH), ("sampl",)),
    "triage 5: truncation -> budgets before tuning": Branch(truncation, ("L001", "L002"), ALARM, ("budget",)),
    "triage 6: KL exploding with rising reward -> reward hacking": Branch(
        kl_with_reward, ("H001", "H002", "K001"), ALARM, ("verifier",), ("Raise the KL coefficient",),
        Rollback.BEFORE_ONSET),
    "triage 7: stale weights -> fix the sync": Branch(stale_weights, ("Y001", "Y003", "Y004"), ALARM, ("sync",)),
    "triage 8, runbook 4: reward up, held-out down -> stop, audit, roll back": Branch(
        hacking, ("H001", "H002"), ALARM, ("verifier", "split"), (), Rollback.BEFORE_ONSET),
    "runbook 1: advantage std about 0 -> zero-variance groups": Branch(all_wrong, ("T001", "S001"), ALARM),
    "runbook 2: entropy collapse -> clip-higher or KL": Branch(
        entropy_collapse, ("E001",), (*ALARM, Verdict.WATCH), ("clip",), (), Rollback.CURRENT),
    "runbook 3: KL without bound -> lower lr or raise KL": Branch(
        kl_alone, ("K001",), (*ALARM, Verdict.WATCH), ("learning rate",), (), Rollback.CURRENT),
    "runbook 5: solved -> finish": Branch(solved, ("T002", "R009"), (Verdict.WATCH,), ("difficult",)),
}  # fmt: skip


def plan_text(found: Diagnosis) -> str:
    return "\n".join(step.text for step in found.plan)


@pytest.mark.parametrize("name", BRANCHES)
def test_branch(name: str) -> None:
    branch = BRANCHES[name]
    found = diagnose(branch.make())
    told = [(c.id, c.finding.summary, [q.id for q in c.consequences]) for c in found.causes]
    assert found.causes, found.ruled_out
    assert found.causes[0].id in branch.first, told
    assert found.verdict in branch.verdicts, told
    assert found.plan[0].text.startswith(VERIFY_THE_VERIFIER)
    for words in branch.plan_has:
        assert words.lower() in plan_text(found).lower(), plan_text(found)
    for words in branch.plan_lacks:
        assert words.lower() not in plan_text(found).lower(), plan_text(found)
    if branch.rollback is not None:
        assert found.rollback.kind is branch.rollback, found.rollback
    if branch.rollback is Rollback.BEFORE_ONSET:
        assert found.rollback.step is not None
        assert found.rollback.step <= ONSET + 50, found.rollback


def test_the_unchanged_run_is_healthy() -> None:
    found = diagnose(base())
    assert found.verdict in (Verdict.HEALTHY, Verdict.WATCH), [(c.id, c.finding.summary) for c in found.causes]


def test_zero_variance_is_treated_by_curriculum_then_mixture_then_diversity() -> None:
    from rlvitals.checks import CHECKS

    plans = next(c for c in CHECKS if c.id == "S001").plans
    knobs = [r.knob for r in plans[""].remedies if r.knob in ("curriculum", "mixture", "temperature")]
    assert knobs == sorted(knobs, key=("curriculum", "mixture", "temperature").index)
    assert knobs[0] == "curriculum"


def test_clip_fraction_alone_never_exceeds_watch() -> None:
    found = diagnose(changed(clip_frac=lambda v: after(v, 0.2 + 0.5 * RAMP)))
    assert found.verdict in (Verdict.HEALTHY, Verdict.WATCH), [(c.id, c.finding.summary) for c in found.causes]
