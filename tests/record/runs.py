"""Small made-up runs for the commands after a diagnosis."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rlvitals.schema import Evals, Run, RunConfig, TrainerInfo
from tests.series import series

TRL = TrainerInfo("TRL", knobs={"clip_high": "epsilon_high"})


def run(name: str = "run", first: int = 1, *, config: RunConfig | None = None, **columns: str) -> Run:
    """Return a run with one series per column, in the notation of `tests.series`."""
    values = {metric: series(text, seed=f"{name}/{metric}") for metric, text in columns.items()}
    rows = max(v.size for v in values.values())
    return Run(name, np.arange(first, first + rows), values, TRL, config or RunConfig())


def with_evals(found: Run, scores: list[float], every: int = 10, items: int = 500, name: str = "math") -> Run:
    """Return the run with one held-out set, scored every so many steps from its first."""
    step = found.step[0] + np.arange(len(scores)) * every
    held = Evals(name, step.astype(np.int64), np.array(scores), np.full(len(scores), np.nan), items)
    return replace(found, evals={**found.evals, name: held})


def healthy(name: str = "healthy", rows: int = 100, first: int = 1, start: float = 0.3, end: float = 0.6) -> Run:
    """Return a run that learns."""
    return run(
        name,
        first,
        reward_mean=f"{start}->{end} x{rows} ~0.02",
        advantage_std=f"0.9 x{rows} ~0.01",
        zero_variance_frac=f"0.2 x{rows} ~0.02",
        entropy=f"0.8->0.7 x{rows} ~0.01",
        kl_ref=f"0.02 x{rows} ~0.002",
        grad_norm=f"0.3 x{rows} ~0.02",
        length_mean=f"200 x{rows} ~3",
        learning_rate=f"1e-6 x{rows}",
        loss=f"0.0 x{rows} ~0.01",
    )


def tied(name: str = "tied", rows: int = 100, first: int = 1) -> Run:
    """Return a run whose groups are all wrong: nothing to learn from."""
    return run(
        name,
        first,
        reward_mean=f"0 x{rows}",
        reward_std=f"0 x{rows}",
        advantage_std=f"0 x{rows}",
        zero_variance_frac=f"1 x{rows}",
        all_wrong_frac=f"1 x{rows}",
        all_right_frac=f"0 x{rows}",
        entropy=f"0.8 x{rows} ~0.01",
        kl_ref=f"0.0001 x{rows} ~0.00001",
        grad_norm=f"0.000001 x{rows}",
        length_mean=f"200 x{rows} ~3",
        learning_rate=f"1e-6 x{rows}",
    )
