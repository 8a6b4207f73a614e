"""Which process of a training job speaks: rank 0 alone, found without being told."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "LOCAL_RANK")
"""Set by torchrun, MPI, Slurm and single-node launchers, the most global first."""
OVERRIDE = "RLVITALS_RANK"  # for independent runs that one launcher starts as if they were ranks of one job


def rank(env: Mapping[str, str] | None = None) -> int:
    """Return this process's rank in its job, 0 when nothing says otherwise.

    A process group that torch.distributed has already joined wins over the environment; torch is never imported.
    """
    env = os.environ if env is None else env
    told = _whole(env.get(OVERRIDE))
    if told is not None:
        return told
    joined = _distributed()
    if joined is not None:
        return joined
    for name in RANK_VARIABLES:
        found = _whole(env.get(name))
        if found is not None:
            return found
    return 0


def _distributed() -> int | None:
    """Return the rank in torch's process group, None when there is none."""
    module = sys.modules.get("torch.distributed")
    if module is None:
        return None
    try:
        if module.is_available() and module.is_initialized():
            return int(module.get_rank())
    except Exception:  # a half-imported or unusual build of torch says nothing of ranks
        return None
    return None


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
