"""How the total reward is made of its logged components, worked out from the log; nothing here decides."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlvitals.view import View

ROWS = 128  # logged rows that the weights are worked out from, spread over those kept
LEAST_ROWS = 10  # beside three per component (convention)
MOST_PARTS = 8
EXACT = 0.01  # of the reward's own standard deviation: what may be left over


def weights(view: View) -> Mapping[str, float]:
    """Return the weight of each component where the total is an exact sum of them, else nothing."""
    return view.cached("reward_mix.weights", lambda: _weights(view))


def _weights(view: View) -> Mapping[str, float]:
    names = [n for n in view.family("reward_part/") if view.has(n, LEAST_ROWS)]
    if not 1 <= len(names) <= MOST_PARTS:
        return {}
    total, parts = view.rows_of("reward_mean"), np.stack([view.rows_of(n) for n in names], axis=1)
    kept = np.flatnonzero(np.isfinite(total) & np.isfinite(parts).all(axis=1))
    if kept.size < LEAST_ROWS + 3 * len(names):
        return {}
    if kept.size > ROWS:
        kept = kept[np.linspace(0, kept.size - 1, ROWS).astype(int)]
    y, x = total[kept], parts[kept]
    y, x = y - y.mean(), x - x.mean(axis=0)
    moving = x.std(axis=0) > 0
    spread = float(y.std())
    if not spread > 0 or not moving.any():
        return {}
    found, _, rank, _ = np.linalg.lstsq(x[:, moving], y, rcond=1e-6)
    left = y - x[:, moving] @ found
    if rank < int(moving.sum()) or float(left.std()) > EXACT * spread:
        return {}
    return dict(zip([n for n, m in zip(names, moving, strict=True) if m], found.tolist(), strict=True))
