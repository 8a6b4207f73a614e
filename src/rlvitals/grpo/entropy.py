"""Log-probability and entropy from logits, plain: what fused.py computes without holding the logits.

H = -sum_v p log p in nats; dH/dz = -p (log p + H): zero for a uniform distribution and where one entry has it all.
"""

from __future__ import annotations

import torch
from torch import Tensor

NEVER = -1e30  # logit of an excluded entry: exp gives exact 0, and unlike -inf no product with 0 turns into NaN


def wide(x: Tensor) -> Tensor:
    """Return x in float32 if its type is narrower (float16 could not even hold NEVER)."""
    return x if x.dtype.itemsize >= 4 else x.float()


def logp_entropy_N(logits_NV: Tensor, ids_N: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return log-probability of the given ids and entropy (nats) at a temperature, in at least float32.

    Leading axes may be any; ids have the shape of logits without the last axis.
    """
    if not temperature > 0.0:
        raise ValueError(f"temperature: found {temperature}; expected a number above 0")
    logp_NV = torch.log_softmax(wide(logits_NV) / temperature, dim=-1)
    logp_N = logp_NV.gather(-1, ids_N[..., None]).squeeze(-1)
    return logp_N, -(logp_NV.exp() * logp_NV).sum(dim=-1)


def kept_logits_NV(logits_NV: Tensor, keep_NV: Tensor, ids_N: Tensor) -> Tensor:
    """Return logits in which only the entries the sampler could choose take part (keep sampling mask).

    Scoring under the same top-p or top-k set as sampling makes the ratio one of the same distributions; log p of the
    result is finite, its entropy that of the kept set. ValueError if a sampled id lies outside its own set. Source:
    DeepSeek-V3.2, arXiv 2512.02556.
    """
    if not bool(keep_NV.gather(-1, ids_N[..., None]).all()):
        raise ValueError("sampled ids outside the sampler's kept set: found keep_NV false at ids_N; expected true")
    return wide(logits_NV).masked_fill(~keep_NV, NEVER)
