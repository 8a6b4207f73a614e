"""The folds of K003, K005 and Y001 end in the same state for any chunking of the rows."""

from __future__ import annotations

import numpy as np
import pytest

from rlvitals.check import Check
from rlvitals.checks import kl_before_update, kl_reference_replaced, sync_gap_jump
from rlvitals.schema import RunConfig
from rlvitals.view import Chunk

NAMES = ("learning_rate", "kl_ref", "logprob_gap_mean")


def folded(check: Check, values: np.ndarray, size: int) -> object:
    assert check.fold is not None
    state = check.fold.start
    for begin in range(0, values.shape[1], size):
        part = values[:, begin : begin + size]
        steps = np.arange(begin + 1, begin + 1 + part.shape[1])
        state = check.fold.step(state, Chunk(steps, {n: i for i, n in enumerate(NAMES)}, part, RunConfig()))
    return state


@pytest.mark.parametrize("check", [kl_before_update.CHECK, sync_gap_jump.CHECK], ids=lambda c: c.id)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_chunking_does_not_matter(check: Check, size: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        rate = rng.choice([0.0, 0.0, np.nan, 1e-6], 12)
        kl = np.where(rng.random(12) < 0.3, np.nan, rng.random(12))
        gap = np.where(rng.random(12) < 0.3, np.nan, rng.random(12))
        values = np.stack([rate, kl, gap])
        assert repr(folded(check, values, size)) == repr(folded(check, values, 12))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_chunking_does_not_matter_where_kl_starts_anew(size: int) -> None:
    """Resets, gaps and rows that were not logged, wherever a chunk ends."""
    rng = np.random.default_rng(1)
    seen = 0
    for _ in range(20):
        kl = 0.05 * np.exp(rng.normal(0, 0.2, 150))
        for at in rng.choice(np.arange(22, 140), 3, replace=False):
            kl[at : at + 4] = rng.choice([[0, 0, 0.001, 0.01], [0, 0.05, 0.05, 0.05], [np.nan, 0, 1e-4, 1e-3]])
        values = np.stack([np.full(150, 1e-6), kl, np.full(150, np.nan)])
        whole = folded(kl_reference_replaced.CHECK, values, 150)
        assert repr(folded(kl_reference_replaced.CHECK, values, size)) == repr(whole)
        seen += bool(whole.found)  # type: ignore[attr-defined]
    assert seen > 5
