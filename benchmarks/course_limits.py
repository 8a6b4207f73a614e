"""E001 and K001 as shipped on courses whose truth is known, and the runbook's fixed limits on healthy runs.

    python -m benchmarks.course_limits [RUNS]

The tables stand in docs/measurements.md: "Entropy and KL checks as shipped", "Runbook literals".
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np

from benchmarks.fault_series import PHIS, answer, coloured, found, scores
from benchmarks.reward_limits import learning
from benchmarks.simulate import healthy, specs
from rlvitals.checks import entropy_collapse, kl_runaway
from rlvitals.runbook import diagnose
from rlvitals.schema import Float64

SEED = 20261129
ROWS = 600
TREND_ROWS = 10  # the runbook leaves open over which rows its trend is taken
VOCABULARY = 151_936


def noisy(rng: np.random.Generator, level: Float64, sds: tuple[float, float], spikes: tuple[float, float]) -> Float64:
    """Return a positive course with log-normal AR(1) noise and upward spikes in 1% of the rows."""
    noise = float(rng.uniform(*sds)) * coloured(rng, level.size, float(rng.choice(PHIS)))
    jumps = np.where(rng.random(level.size) < 0.01, rng.uniform(*spikes, level.size), 1.0)
    return np.asarray(level * np.exp(noise) * jumps)


def entropy(rng: np.random.Generator, collapses: bool) -> tuple[int, Float64]:
    """Return (onset row, entropy): flat, settling, log-linear or rising; or a fall to 1 to 6% in 25 to 150 rows."""
    t, start = np.arange(ROWS), float(np.exp(rng.uniform(np.log(0.1), np.log(2.9))))
    onset = int(rng.integers(100, 350))
    if collapses:
        fall = np.log(rng.uniform(0.01, 0.06)) * np.clip((t - onset) / rng.integers(25, 150), 0, 1)
        return onset, noisy(rng, start * np.exp(fall), (0.03, 0.3), (1.5, 4))
    end, pace = rng.uniform(0.15, 0.7), ROWS * rng.uniform(0.05, 0.5)
    shapes = (
        np.ones(ROWS),
        end + (1 - end) * np.exp(-t / pace),
        np.exp(np.log(end) * t / ROWS),
        1 + rng.uniform(0, 0.8) * (1 - np.exp(-t / pace)),
    )
    return onset, noisy(rng, start * shapes[rng.integers(4)], (0.03, 0.3), (1.5, 4))


def divergence(rng: np.random.Generator, ratchets: bool) -> tuple[int, Float64]:
    """Return (onset row, KL): saturating or like t^.2 to t^.5; or like t^1 to t^1.6, or 3 to 30 times in the end."""
    t = np.arange(1, ROWS + 1) / ROWS
    final, onset = float(np.exp(rng.uniform(np.log(0.003), np.log(0.6)))), 0
    if not ratchets:
        level = (1 - np.exp(-t / rng.uniform(0.05, 0.4))) if rng.random() < 0.5 else t ** rng.uniform(0.2, 0.5)
    elif rng.random() < 0.5:
        level, final = t ** rng.uniform(1, 1.6), max(final, 0.1)
    else:
        onset = int(rng.integers(120, 400))
        rise = np.clip((t * ROWS - onset) / (ROWS - onset), 0, 1)
        level, final = t**0.3 * np.exp(np.log(rng.uniform(3, 30)) * rise), max(final, 0.02)
    return onset, noisy(rng, final * level, (0.08, 0.5), (2, 8))


def shipped(runs: int) -> None:
    """Print how often each check speaks, and how often with an alarm, beside a reward that falls with the fault."""
    print("check, truth: share raised (before onset, median delay) | share alarmed (same)")
    for name, check, make, metric in (
        ("E001", entropy_collapse.CHECK, entropy, "entropy"),
        ("K001", kl_runaway.CHECK, divergence, "kl_ref"),
    ):
        for sick in (False, True):
            rng = np.random.default_rng([SEED, len(metric), int(sick)])
            answers = []
            for _ in range(runs):
                onset, series = make(rng, sick)
                rate = learning(rng, ROWS)
                if sick:
                    rate = rate * (1 - 0.6 * np.clip((np.arange(ROWS) - max(onset, 100) - 60) / 60, 0, 1))
                answers.append((onset, answer(check, {metric: series, "reward_mean": scores(rng, rate)})))
            cells = ["{:.3f} ({:.3f}, {:.0f})".format(*found(answers, alarms=alarms)) for alarms in (False, True)]
            print(f"  {name}, {'fault' if sick else 'healthy'}: " + " | ".join(cells), flush=True)


def literals(runs: int) -> None:
    """Print the share of steps, and of runs, in which each fixed limit of the runbook flags a healthy run."""
    steps, hits, touched = 0, Counter[str](), Counter[str]()
    chosen = [s for s in specs(20 * runs) if s.layout == "full"][:runs]
    for spec in chosen:
        columns = healthy(spec).columns
        smooth = np.convolve(columns["entropy"], np.full(TREND_ROWS, 1 / TREND_ROWS), mode="valid")
        flagged = Counter[str]()
        for i in range(2 * TREND_ROWS - 1, columns["entropy"].size):
            now = smooth[i - TREND_ROWS + 1]
            flagged.update(
                diagnose(
                    reward_mean=columns["reward_mean"][i],
                    advantage_std=columns["advantage_std"][i],
                    entropy=columns["entropy"][i],
                    entropy_trend=now - smooth[i - 2 * TREND_ROWS + 1],
                    kl=columns["kl_ref"][i],
                    vocab_size=VOCABULARY,
                )
            )
            steps += 1
        hits += flagged
        touched.update(flagged.keys())
    print(f"runbook literals, {len(chosen)} healthy runs, {steps} steps: share of steps, share of runs")
    for name, count in hits.most_common():
        print(f"  {name}: {count / steps:.3f}, {touched[name] / len(chosen):.3f}")


if __name__ == "__main__":
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    literals(asked)
    shipped(asked)
