"""Simulated healthy runs: what a check must stay quiet on.

Rewards are real draws (groups of G Bernoulli rollouts with per-prompt pass rates), so that group statistics, their
finite-group law and their binomial noise are those of life; the other series follow them with autocorrelated,
heavy-tailed noise. The noise families here (Student-t and random-telegraph AR noise, drifting difficulty) are not the
Gaussian AR(1) ones that thresholds were chosen on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from rlvitals.schema import Evals, Float64, Run, RunConfig

LAYOUTS = ("full", "trl", "verl", "chapter-7", "sparse")
COURSES = (
    "steady learner",
    "slow learner",
    "late take-off",
    "solved",
    "plateau",
    "noisy small batch",
    "recovering dip",
)
TRL_COLUMNS = (
    "reward_mean", "reward_std", "zero_variance_frac", "length_mean", "length_min", "length_max", "truncated_frac",
    "entropy", "kl_ref", "grad_norm", "learning_rate", "loss", "clip_frac", "reward_part/format", "reward_part/correct",
)  # fmt: skip
VERL_COLUMNS = (
    "reward_mean", "reward_max", "reward_min", "advantage_max", "advantage_min", "length_mean", "truncated_frac",
    "entropy", "kl_ref", "kl_old_new", "grad_norm", "learning_rate", "policy_loss", "clip_frac", "prob_gap_mean",
)  # fmt: skip
CHAPTER7_COLUMNS = ("reward_mean", "loss", "length_mean", "advantage_mean", "advantage_std", "entropy")


@dataclass(frozen=True, slots=True)
class Spec:
    """What one simulated run is: its learning course, its layout, its length and its batch."""

    seed: int
    course: str
    layout: str
    steps: int
    prompts: int
    group: int


def specs(count: int, *, first_seed: int = 0) -> list[Spec]:
    """Return `count` run specifications, 200 to 2,000 steps, all courses and layouts in turn."""
    out = []
    for seed in range(first_seed, first_seed + count):
        rng = np.random.default_rng(seed)
        course = COURSES[seed % len(COURSES)]
        layout = LAYOUTS[(seed // len(COURSES)) % len(LAYOUTS)]
        steps = int(np.exp(rng.uniform(np.log(200), np.log(2000))))
        prompts = int(rng.choice([4, 8, 16, 32, 64]))
        if course == "noisy small batch":
            prompts = int(rng.choice([1, 2, 4]))
        if layout == "chapter-7":
            prompts = 1
        out.append(Spec(seed, course, layout, steps, prompts, int(rng.choice([4, 8, 16]))))
    return out


def ar_noise(rng: np.random.Generator, n: int) -> Float64:
    """Return unit-scale autocorrelated, heavy-tailed noise: AR(1) driven by Student-t, at times with a telegraph."""
    phi = float(rng.uniform(0, 0.85))
    shock = rng.standard_t(float(rng.uniform(3.5, 12)), size=n)
    out = np.empty(n)
    level = 0.0
    for i in range(n):
        level = phi * level + shock[i]
        out[i] = level
    out *= np.sqrt(1 - phi * phi) / max(float(np.std(shock)), 1e-9)
    if rng.random() < 0.3:
        flips = np.cumsum(rng.random(n) < 1 / 40) % 2
        out += 0.8 * (flips - flips.mean())
    return out


def pass_rate(spec: Spec, rng: np.random.Generator) -> Float64:
    """Return the mean pass rate over the steps."""
    t = np.linspace(0, 1, spec.steps)
    low, high = float(rng.uniform(0.12, 0.4)), float(rng.uniform(0.5, 0.85))
    if spec.course == "slow learner":
        return low + (high - low) * 0.5 * t ** float(rng.uniform(0.7, 1.3))
    if spec.course == "late take-off":
        middle = float(rng.uniform(0.3, 0.6))
        return low + (high - low) / (1 + np.exp(-(t - middle) * 18))
    if spec.course == "solved":
        return low + (float(rng.uniform(0.93, 0.985)) - low) * (1 - np.exp(-t * float(rng.uniform(4, 8))))
    if spec.course == "plateau":
        return low + (high - low) * (1 - np.exp(-t * float(rng.uniform(6, 20))))
    if spec.course == "recovering dip":
        at = float(rng.uniform(0.3, 0.7))
        base = low + (high - low) * (1 - np.exp(-t * 5))
        return base - 0.35 * (base - low) * np.exp(-(((t - at) / 0.03) ** 2))
    return low + (high - low) * (1 - np.exp(-t * float(rng.uniform(1.5, 4))))


def draw_groups(spec: Spec, p: Float64, rng: np.random.Generator) -> tuple[Float64, dict[str, Float64]]:
    """Return (successes int[T, P], reward and group statistics) of Bernoulli rollouts."""
    spread = float(rng.uniform(1.0, 6.0))
    drift = 0.04 * ar_noise(rng, spec.steps)
    mean = np.clip(p + drift * np.minimum(p, 1 - p) * 2, 0.01, 0.995)
    rates = rng.beta(mean[:, None] * spread, (1 - mean[:, None]) * spread, size=(spec.steps, spec.prompts))
    wins = rng.binomial(spec.group, rates)
    mean_g = wins / spec.group
    std_g = np.sqrt(mean_g * (1 - mean_g) * spec.group / (spec.group - 1))
    tied = (wins == 0) | (wins == spec.group)
    live = ~tied
    scaled = np.where(live, 1.0, 0.0)
    reward = mean_g.mean(axis=1)
    stats = {
        "zero_variance_frac": tied.mean(axis=1),
        "all_wrong_frac": (wins == 0).mean(axis=1),
        "all_right_frac": (wins == spec.group).mean(axis=1),
        "reward_std": std_g.mean(axis=1),
        "advantage_mean": rng.normal(0, 1e-8, spec.steps),
        "advantage_std": np.sqrt(scaled.mean(axis=1) * (spec.group - 1) / spec.group),
        "advantage_max": np.where(live, (1 - mean_g) / np.maximum(std_g, 1e-9), 0).max(axis=1),
        "advantage_min": np.where(live, -mean_g / np.maximum(std_g, 1e-9), 0).min(axis=1),
        "reward_max": (wins > 0).any(axis=1).astype(float),
        "reward_min": (wins == spec.group).all(axis=1).astype(float),
        "reward_part/correct": reward,
    }
    return reward, stats


def healthy(spec: Spec) -> Run:
    """Return one healthy run."""
    rng = np.random.default_rng([spec.seed, 77])
    n, t = spec.steps, np.linspace(0, 1, spec.steps)
    p = pass_rate(spec, rng)
    correct, columns = draw_groups(spec, p, rng)
    progress = (p - p[0]) / max(float(np.ptp(p)), 1e-9)
    fmt = 1 - (1 - float(rng.uniform(0.3, 0.9))) * np.exp(-t * float(rng.uniform(5, 15)))
    fmt = np.clip(rng.binomial(spec.prompts * spec.group, fmt) / (spec.prompts * spec.group), 0, 1)
    weight = float(rng.choice([0.0, 0.1, 0.2, 0.5]))
    columns["reward_part/format"] = fmt
    columns["reward_mean"] = correct + weight * fmt
    columns["reward_max"] = columns["reward_max"] + weight
    columns["entropy"] = _entropy(rng, n, progress)
    columns.update(_leash(rng, n, t))
    columns.update(_lengths(rng, n, t, progress))
    columns.update(_update(rng, n, t, columns))
    budget = float(columns.pop("budget")[0])
    config = RunConfig(
        group_size=spec.group, prompts_per_step=spec.prompts, kl_coef=0.01, temperature=1.0, top_p=1.0,
        token_budget=int(budget), clip_low=0.2, clip_high=0.2, updates_per_rollout=2, advantage_scaling="group",
        planned_steps=n, vocab_size=151_936,
    )  # fmt: skip
    run = Run(f"healthy-{spec.seed}", np.arange(1, n + 1), columns, config=config, evals=_evals(rng, spec, p))
    return _as_logged(run, spec)


def _entropy(rng: np.random.Generator, n: int, progress: Float64) -> Float64:
    start = float(np.exp(rng.uniform(np.log(0.08), np.log(3.0))))
    end = float(rng.choice([0.15, 0.3, 0.6, 1.0, 1.3], p=[0.15, 0.25, 0.3, 0.2, 0.1]))
    speed = float(rng.uniform(0.6, 1.4))
    course = start * np.exp(np.log(end) * np.clip(progress, 0, 1) ** speed)
    noise = np.exp(float(rng.uniform(0.03, 0.25)) * ar_noise(rng, n))
    spikes = np.where(rng.random(n) < 0.01, rng.uniform(1.3, 3, n), 1.0)
    return np.minimum(course * noise * spikes, 6.0)


def _leash(rng: np.random.Generator, n: int, t: Float64) -> dict[str, Float64]:
    final = float(np.exp(rng.uniform(np.log(0.002), np.log(0.4))))
    shape = rng.choice(["settle", "root", "settle and creep"])
    course = {
        "settle": 1 - np.exp(-t * 6),
        "root": np.sqrt(t),
        "settle and creep": 0.7 * (1 - np.exp(-t * 8)) + 0.3 * t,
    }
    noise = np.exp(float(rng.uniform(0.08, 0.4)) * ar_noise(rng, n))
    spikes = np.where(rng.random(n) < 0.01, rng.uniform(2, 8, n), 1.0)
    level = final * course[str(shape)] * noise * spikes
    level[0] = 0.0
    gap = float(np.exp(rng.uniform(np.log(0.004), np.log(0.03))))
    return {
        "kl_ref": level,
        "kl_old_new": rng.normal(1e-4, 3e-4, n),
        "logprob_gap_mean": gap * np.exp(0.1 * ar_noise(rng, n)),
        "logprob_gap_max": gap * np.exp(rng.normal(3, 0.6, n)),
        "prob_gap_mean": 0.3 * gap * np.exp(0.1 * ar_noise(rng, n)),
        "sampler_ratio_mean": 1 + rng.normal(0, 0.002, n),
        "version_lag_mean": np.zeros(n),
        "version_lag_max": np.zeros(n),
    }


def _lengths(rng: np.random.Generator, n: int, t: Float64, progress: Float64) -> dict[str, Float64]:
    start = float(np.exp(rng.uniform(np.log(40), np.log(3000))))
    end = start * float(rng.uniform(0.6, 1.8))
    mean = (start + (end - start) * t) * np.exp(float(rng.uniform(0.02, 0.12)) * ar_noise(rng, n))
    budget = max(start, end) * float(rng.uniform(2.5, 6))
    cut = float(rng.choice([0.0, 0.02, 0.05, 0.25])) * np.exp(-progress * 3)
    truncated = rng.binomial(256, np.clip(cut, 0, 1), n) / 256
    mean = np.minimum(mean, budget * 0.9)
    return {
        "length_mean": mean,
        "length_max": np.where(truncated > 0, budget, np.minimum(mean * 1.8, budget)),
        "length_min": mean * 0.4,
        "truncated_frac": truncated,
        "budget": np.full(n, budget),
    }


def _update(rng: np.random.Generator, n: int, t: Float64, columns: dict[str, Float64]) -> dict[str, Float64]:
    base = float(np.exp(rng.uniform(np.log(0.02), np.log(20))))
    live = np.sqrt(np.maximum(1 - columns["zero_variance_frac"], 0))
    spikes = np.where(rng.random(n) < 0.012, rng.uniform(3, 25, n), 1.0)
    grad = base * (live + 0.02) * np.exp(float(rng.uniform(0.1, 0.5)) * ar_noise(rng, n)) * spikes
    warm = min(max(int(0.03 * n), 1), 50)
    rate = float(rng.choice([1e-6, 5e-6, 1e-5])) * np.minimum(np.arange(1, n + 1) / warm, 1)
    if rng.random() < 0.5:
        rate = rate * (0.5 * (1 + np.cos(np.pi * t)))
    clip = 0.002 * np.exp(0.6 * ar_noise(rng, n))
    return {
        "grad_norm": grad,
        "learning_rate": rate,
        "loss": rng.normal(0, 0.02, n),
        "policy_loss": rng.normal(0, 0.02, n),
        "clip_frac": np.clip(clip, 0, 1),
        "step_time_s": 20 * np.exp(0.1 * rng.normal(size=n)),
    }


def _evals(rng: np.random.Generator, spec: Spec, p: Float64) -> dict[str, Evals]:
    if rng.random() < 0.3:
        return {}
    every = max(spec.steps // int(rng.integers(4, 25)), 5)
    steps = np.arange(every, spec.steps + 1, every)
    items = int(rng.choice([100, 200, 500, 1000]))
    offset = float(rng.uniform(-0.1, 0.1))
    truth = np.clip(p[0] + (p[steps - 1] - p[0]) * float(rng.uniform(0.7, 1.1)) + offset, 0.02, 0.98)
    score = rng.binomial(items, truth) / items
    return {"held-out": Evals("held-out", steps, score, np.sqrt(score * (1 - score) / items), items)}


def _as_logged(run: Run, spec: Spec) -> Run:
    keep: dict[str, tuple[str, ...]] = {"trl": TRL_COLUMNS, "verl": VERL_COLUMNS, "chapter-7": CHAPTER7_COLUMNS}
    columns = dict(run.columns)
    if spec.layout in keep:
        columns = {name: columns[name] for name in keep[spec.layout]}
    if spec.layout != "full" and spec.layout != "trl":
        run = replace(run, config=RunConfig(group_size=spec.group, planned_steps=spec.steps))
    if spec.layout == "sparse":
        every = 10
        kept = np.arange(every - 1, spec.steps, every)
        columns = {n: c[: kept.size * every].reshape(-1, every).mean(axis=1) for n, c in columns.items()}
        return replace(run, step=run.step[kept], columns=columns)
    return replace(run, columns=columns)


def many(count: int, make: Callable[[Spec], Run] = healthy, *, first_seed: int = 0) -> list[tuple[Spec, Run]]:
    """Return `count` simulated runs with their specifications."""
    return [(spec, make(spec)) for spec in specs(count, first_seed=first_seed)]
