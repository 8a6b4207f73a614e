"""Small logs for the command-line tests: TRL-shaped JSONL, healthy or with a gradient that becomes NaN."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np


def trl_rows(steps: int = 80, *, nan_from: int | None = None, nan_until: int | None = None) -> list[dict[str, object]]:
    """Return one dict per step; the gradient norm is NaN from `nan_from` up to before `nan_until`."""
    rng = np.random.default_rng(7)
    rows: list[dict[str, object]] = []
    for step in range(1, steps + 1):
        level = 0.35 + 0.3 * step / steps + rng.normal(0, 0.02)
        broken = nan_from is not None and nan_from <= step < (nan_until or steps + 1)
        rows.append(
            {
                "step": step,
                "loss": float(rng.normal(0, 0.01)),
                "grad_norm": float("nan") if broken else float(0.2 + rng.normal(0, 0.01)),
                "learning_rate": 1e-6,
                "reward": level,
                "reward_std": float(0.3 + rng.normal(0, 0.01)),
                "frac_reward_zero_std": float(np.clip(0.2 + rng.normal(0, 0.03), 0, 1)),
                "completions/mean_length": float(180 + rng.normal(0, 4)),
                "completions/clipped_ratio": float(np.clip(0.02 + rng.normal(0, 0.005), 0, 1)),
                "kl": float(0.0005 * np.sqrt(step) * (1 + rng.normal(0, 0.05))) if step > 1 else 0.0,
                "entropy": float(0.8 - 0.1 * step / steps + rng.normal(0, 0.01)),
                "my_own_column": step % 7,
            }
        )
    return rows


def write_jsonl(path: Path, rows: list[dict[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def sft_rows(steps: int = 40) -> list[dict[str, object]]:
    """Return the log of a supervised run: no reward anywhere."""
    return [
        {"step": s, "loss": 2.0 / s, "mean_token_accuracy": 0.5, "learning_rate": 1e-5} for s in range(1, steps + 1)
    ]
