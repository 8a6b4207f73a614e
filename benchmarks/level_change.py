"""False positives of `stats.change` on AR(1) noise without any change: python -m benchmarks.level_change.

The table stands in docs/measurements.md, "Change of level under AR(1) noise".
"""

from __future__ import annotations

import numpy as np

from rlvitals.schema import Float64
from rlvitals.stats import change

SEED = 20261129
REPEATS = 1000
LIMITS = (1.96, 2.6, 3.5, 4.0)
BURN_IN = 50  # rows until the process has forgotten its start


def noise(rng: np.random.Generator, rows: int, phi: float) -> Float64:
    """Return float64[rows] of an AR(1) process with unit innovations."""
    shocks = rng.normal(size=rows + BURN_IN)
    out = np.zeros_like(shocks)
    for i in range(1, out.size):
        out[i] = phi * out[i - 1] + shocks[i]
    return out[BURN_IN:]


def rates(rng: np.random.Generator, rows: int, phi: float) -> dict[float, float]:
    """Return, per limit, how often two stretches of `rows` each are called different."""
    scores = []
    for _ in range(REPEATS):
        series = noise(rng, 2 * rows, phi)
        found = change(series[:rows], series[rows:], z=1.0)
        scores.append(abs(found.difference) / ((found.high - found.low) / 2))
    return {limit: float(np.mean(np.array(scores) > limit)) for limit in LIMITS}


def main() -> None:
    rng = np.random.default_rng(SEED)
    print("rows in each stretch, phi: share above " + ", ".join(f"{limit:g}" for limit in LIMITS))
    for rows in (10, 20, 50):
        for phi in (0.0, 0.3, 0.6, 0.85):
            print(f"{rows:4d} {phi:5.2f}  " + "  ".join(f"{share:.3f}" for share in rates(rng, rows, phi).values()))


if __name__ == "__main__":
    main()
