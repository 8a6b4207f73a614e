"""Error rates behind the measured limits of the data, signal and update checks: python -m benchmarks.signal_thresholds.

The tables stand in docs/measurements.md: "Reward rescaling", "Tied groups", "Gradient spikes", "Loss spikes".
"""

from __future__ import annotations

import numpy as np

from benchmarks.level_change import noise
from rlvitals.schema import Float64

SEED = 20261129
REPEATS = 2000
PHIS = (0.0, 0.4, 0.7, 0.85)


def rescaling(rng: np.random.Generator, phi: float, spread: float) -> Float64:
    """Return the largest one-step factor of 512-row rewards whose noise is `spread` of their level (D005)."""
    factors = []
    for _ in range(REPEATS // 10):
        level = np.linspace(1, rng.uniform(1, 4), 512)
        y = level * np.maximum(1 + spread * noise(rng, 512, phi) * np.sqrt(1 - phi**2), 0.01)
        sides = np.lib.stride_tricks.sliding_window_view(y, 10)
        apart = (sides.min(1)[:-10] > sides.max(1)[10:]) | (sides.min(1)[10:] > sides.max(1)[:-10])
        ratio = np.median(sides[10:], 1) / np.median(sides[:-10], 1)
        factors.append(float(np.exp(np.abs(np.log(ratio[apart])).max())) if apart.any() else 1.0)
    return np.array(factors)


def tied(rng: np.random.Generator, share: float, groups: int, rows: int = 100) -> float:
    """Return how often the strict lower bound calls a true share of tied groups a lasting 0.9 (S001)."""
    hits = 0
    for _ in range(REPEATS):
        f = rng.binomial(groups, share, rows) / groups
        error = np.sqrt(f.var(ddof=1) / rows)
        hits += bool(f.mean() >= 0.9 and f[-50:].mean() >= 0.9 and f.mean() - 3.5 * error >= 0.75)
    return hits / REPEATS


def spikes(rng: np.random.Generator, phi: float, log_sd: float, outliers: float) -> float:
    """Return how often more than 8% of 50 log-normal norms exceed ten medians; outliers are 3 to 60 times (U002)."""
    hits = 0
    for _ in range(REPEATS):
        x = np.exp(log_sd * noise(rng, 200, phi) * np.sqrt(1 - phi**2))
        x *= np.where(rng.random(200) < outliers, rng.uniform(3, 60, 200), 1.0)
        now = x[-50:] > 10 * np.median(x)
        hits += bool(now.sum() >= 3 and now.mean() > 0.08)
    return hits / REPEATS


def explosions(rng: np.random.Generator, dof: float, level: float) -> tuple[float, float]:
    """Return how often 500 Student-t losses have 3 (and 1) of 100 rows above 50 medians and above 2 (U010)."""
    most = []
    for _ in range(REPEATS):
        size = level * np.abs(rng.standard_t(dof, 500))
        hit = (size > 50 * np.median(size)) & (size > 2)
        most.append(int(np.lib.stride_tricks.sliding_window_view(hit, 100).sum(axis=1).max()))
    return float(np.mean(np.array(most) >= 3)), float(np.mean(np.array(most) >= 1))


def main() -> None:
    rng = np.random.default_rng(SEED)
    print("reward rescaling, largest one-step factor: phi, relative noise, 95%, maximum")
    for phi in PHIS:
        for spread in (0.05, 0.1, 0.3):
            f = rescaling(rng, phi, spread)
            print(f"  {phi:.2f} {spread:.2f}  {np.quantile(f, 0.95):.2f}  {f.max():.2f}")
    print("tied groups: true share, groups per row, called a lasting 0.9")
    for share in (0.5, 2 / 3, 0.75, 0.8, 0.85, 0.9):
        print(f"  {share:.2f}  " + "  ".join(f"{n}: {tied(rng, share, n):.4f}" for n in (1, 4, 16)))
    print("gradient spikes: phi, log sd, share of outliers, called spiking")
    for phi in (0.0, 0.7):
        for log_sd in (0.3, 0.5, 0.8, 1.2):
            print(
                f"  {phi:.2f} {log_sd:.1f}  "
                + "  ".join(f"{o}: {spikes(rng, phi, log_sd, o):.4f}" for o in (0.0, 0.01, 0.02))
            )
    print("loss spikes: degrees of freedom, level, three in a hundred rows, at least one")
    for dof in (1.5, 2.0, 3.0, 5.0):
        for level in (0.02, 0.2):
            three, one = explosions(rng, dof, level)
            print(f"  {dof:.1f} {level:.2f}  {three:.4f}  {one:.4f}")


if __name__ == "__main__":
    main()
