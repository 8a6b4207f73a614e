"""H001 and H002 as shipped on held-out scores whose truth is known: python -m benchmarks.heldout_limits [RUNS].

The table stands in docs/measurements.md: "Held-out checks as shipped".
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.fault_series import answer, found, scores
from rlvitals.check import Check
from rlvitals.checks import heldout_not_following, heldout_regression
from rlvitals.schema import Float64, RunConfig

SEED = 20261129
ROWS = 400
SETUPS = ((5, 100), (8, 200), (10, 500))  # evaluations, items of each
RANGES = {"range known": RunConfig(reward_min=0.0, reward_max=1.0), "range unknown": RunConfig()}
TRUTHS = ("healthy", "both plateau", "drop", "flat")


def run(
    rng: np.random.Generator, truth: str, evals: int, items: int
) -> tuple[int, Float64, dict[int, tuple[float, int]]]:
    """Return (onset row, training reward, held-out scores): the scores follow, stop with it, fall, or never move."""
    t = np.arange(ROWS) / ROWS
    low, high = rng.uniform(0.15, 0.4), rng.uniform(0.6, 0.9)
    pace = rng.uniform(0.15, 0.5) if truth != "both plateau" else rng.uniform(0.02, 0.06)
    rate = low + (high - low) * (1 - np.exp(-t / pace))
    onset = int(ROWS * rng.uniform(0.3, 0.6))
    held = low - 0.05 + rng.uniform(0.7, 1.0) * (rate - low)
    if truth == "drop":
        held = held - np.clip((np.arange(ROWS) - onset) / (ROWS - onset), 0, 1) * rng.uniform(0.15, 0.35)
    if truth == "flat":
        onset, held = 0, np.full(ROWS, low - 0.05)
    steps = np.linspace(ROWS // evals, ROWS, evals).astype(int)
    right = {int(s): (float(rng.binomial(items, np.clip(held[s - 1], 0.01, 0.99)) / items), items) for s in steps}
    return onset, scores(rng, rate), right


def cell(check: Check, config: RunConfig, runs: int, truth: str, evals: int, items: int) -> str:
    """Return the share alarmed, in brackets the share before the onset and the median delay in rows."""
    rng = np.random.default_rng([SEED, TRUTHS.index(truth), evals])
    answers = []
    for _ in range(runs):
        onset, reward, right = run(rng, truth, evals, items)
        answers.append((onset, answer(check, {"reward_mean": reward}, evals=right, config=config)))
    share, early, delay = found(answers)
    return f"{share:.3f}" + (f" ({early:.3f}, {delay:.0f})" if truth in ("drop", "flat") else "")


def main(runs: int) -> None:
    print("check, evaluations of items: share alarmed | " + " | ".join(TRUTHS))
    for check in (heldout_not_following.CHECK, heldout_regression.CHECK):
        for name, config in RANGES.items():
            for evals, items in SETUPS:
                row = [cell(check, config, runs, truth, evals, items) for truth in TRUTHS]
                print(f"  {check.id}, {name}, {evals} of {items}: " + " | ".join(row), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
