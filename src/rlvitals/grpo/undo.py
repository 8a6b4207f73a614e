"""What a step changes before its update, so that one that is abandoned leaves no trace in the next checkpoint."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

from rlvitals.grpo.pool import Pool


class Before:
    """The pool and the global generators as they are now."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool.state()
        self._random: tuple[Any, ...] = random.getstate()
        self._numpy = np.random.get_state()  # noqa: NPY002 (the global one, as environments use it)
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def restore(self, pool: Pool) -> None:
        """Put them back."""
        pool.load(self._pool)
        random.setstate(self._random)
        np.random.set_state(self._numpy)  # noqa: NPY002
        torch.set_rng_state(self._torch)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)
