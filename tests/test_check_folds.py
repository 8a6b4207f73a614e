"""The folds of K003 and Y001 end in the same state for any chunking of the rows."""

from __future__ import annotations

import numpy as np
import pytest

from rlvitals.check import Check
from rlvitals.checks import kl_before_update, sync_gap_jump
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
