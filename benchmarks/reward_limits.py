"""Error rates behind the limits of R002 and R003 on simulated rewards: python -m benchmarks.reward_limits.

    python -m benchmarks.reward_limits [RUNS] [collapse|format|short]

The tables stand in docs/measurements.md: "Reward collapse", "Format comes first", "Component divergence in short logs".
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.fault_series import Answer, answer, found, scores
from rlvitals.checks import reward_collapse, reward_divergence
from rlvitals.schema import Float64

SEED = 20261129
ROWS = 400
COLLAPSE, DIVERGENCE = reward_collapse.CHECK, reward_divergence.CHECK


def learning(rng: np.random.Generator, rows: int) -> Float64:
    """Return the pass rate of a run that learns, jumps late, or stands still."""
    t = np.arange(rows) / rows
    low, high = rng.uniform(0.1, 0.4), rng.uniform(0.45, 0.95)
    shape = rng.integers(3)
    if shape == 0:
        return np.asarray(low + (high - low) * (1 - np.exp(-t / rng.uniform(0.05, 0.4))))
    if shape == 1:
        return np.asarray(low + (high - low) / (1 + np.exp(-(t - rng.uniform(0.2, 0.6)) / 0.05)))
    return np.full(rows, high)


def collapse(runs: int, lost: float, z: float) -> str:
    """Return one row of the table of R002: healthy, harder tasks (-30%), and falls to 20% or 0 of the level."""
    limits = {"R002.lost_share": lost, "R002.z": z}
    rates = []
    for left in (1.0, 0.7, 0.45, 0.2, 0.0):
        rng = np.random.default_rng([SEED, int(100 * left)])
        answers = []
        for _ in range(runs):
            rate, onset = learning(rng, ROWS), int(rng.integers(120, 280))
            over = int(rng.choice([1, 20, 60]))
            fall = 1 - (1 - left) * np.clip((np.arange(ROWS) - onset) / over, 0, 1)
            answers.append((onset, answer(COLLAPSE, {"reward_mean": scores(rng, rate * fall)}, limits)))
        share, early, delay = found(answers)
        rates.append(f"{share:.3f}" + (f" ({early:.3f}, {delay:.0f})" if left < 0.5 else ""))
    return " | ".join(rates)


def format_first(runs: int, grace: float, grace_done: float) -> str:
    """Return one row of the table of R003: format is learned, correctness follows at row 30 to 400, or never."""
    limits = {"R003.rows_format": grace, "R003.rows_format_done": grace_done}
    rates = []
    for follows in ((30, 120), (120, 250), (250, 400), None):
        rng = np.random.default_rng([SEED, 7 if follows is None else follows[0]])
        answers = []
        for _ in range(runs):
            rows, t = 600, np.arange(600)
            form = scores(rng, 1 - rng.uniform(0.4, 0.9) * np.exp(-t / rng.uniform(10, 80)))
            onset = rows if follows is None else int(rng.integers(*follows))
            base, weight = float(rng.choice([0.0, 0.01, 0.05, 0.2])), float(rng.choice([0.2, 0.5, 1.0]))
            truth = scores(rng, base + rng.uniform(0.2, 0.5) * np.clip((t - onset) / 150, 0, 1))
            columns = {
                "reward_mean": truth + weight * form,
                "reward_part/format": weight * form,
                "reward_part/correct": truth,
            }
            answers.append((0, answer(DIVERGENCE, columns, limits)))
        before = [a for _, a in answers if a.alarmed is not None]
        rates.append(f"{len(before) / runs:.3f}" + (f" ({found(answers)[2]:.0f})" if follows is None else ""))
    return " | ".join(rates)


def short_logs(runs: int, rows: int) -> tuple[float, float, float]:
    """Return how often R003 answers, and how often with an alarm, on short healthy logs; then on short faults."""
    rng = np.random.default_rng([SEED, rows])
    healthy, faults = [], []
    for _ in range(runs):
        t = np.arange(rows) / max(rows - 1, 1)
        truth, form = scores(rng, np.full(rows, rng.uniform(0.05, 0.6))), scores(rng, 0.3 + 0.5 * t)
        healthy.append(_short(truth, form, 200 * np.exp(rng.normal(0, 0.1, rows))))
        truth = scores(rng, rng.uniform(0.3, 0.6) * (1 - 0.9 * t))
        faults.append(_short(truth, form, 200 * (1 - 0.7 * t) * np.exp(rng.normal(0, 0.05, rows))))
    share = [np.mean([a.raised is not None for a in group]) for group in (healthy, faults)]
    return float(share[0]), float(np.mean([a.alarmed is not None for a in healthy])), float(share[1])


def _short(truth: Float64, form: Float64, length: Float64) -> Answer:
    parts = {"reward_part/correct": truth, "reward_part/format": form, "length_mean": length}
    return answer(DIVERGENCE, {"reward_mean": truth + form, **parts})


def main(runs: int, parts: list[str]) -> None:
    if "collapse" in parts:
        print("R002, share alarmed (before onset, median delay): healthy | -30% | -55% | to 20% | to 0")
        for lost, z in ((0.4, 2.6), (0.4, 4.0), (0.5, 4.0), (0.6, 2.6), (0.6, 4.0), (0.8, 4.0)):
            print(f"  lost_share {lost}, z {z}: {collapse(runs, lost, z)}", flush=True)
    if "format" in parts:
        print("R003, share alarmed: correctness follows at 30-120 | 120-250 | 250-400 | never (median row)")
        for grace, done in ((30, 30), (100, 60), (250, 150), (400, 300)):
            print(f"  rows_format {grace}, rows_format_done {done}: {format_first(runs, grace, done)}", flush=True)
    if "short" in parts:
        print("R003, short logs: rows, raised on healthy, alarmed on healthy, raised on faults")
        for rows in (5, 10, 20):
            print(f"  {rows:2d}  " + "  ".join(f"{share:.4f}" for share in short_logs(10 * runs, rows)), flush=True)


if __name__ == "__main__":
    asked = sys.argv[1:]
    main(int(asked[0]) if asked else 200, asked[1:] or ["collapse", "format", "short"])
