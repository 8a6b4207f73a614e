"""The probability ratio of the current to the old policy: second of the four axes of a policy loss.

log r_t = logp_t - logp_old_t. The old policy is the one whose log-probabilities were recomputed by the trainer before
the first minibatch; the sampler's own are the matter of correction.py. On the first minibatch every ratio is exactly 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType

import torch
from torch import Tensor

from rlvitals.grpo.masks import masked, sequence_mean_B, sequence_sum_B


class RatioLevel(Enum):
    """How many tokens share one ratio."""

    TOKEN = "token"
    SEQUENCE_MEAN = "sequence-mean"
    SEQUENCE_SUM = "sequence-sum"
    SEQUENCE_TOKEN = "sequence-token"


def log_ratio_BT(logp_BT: Tensor, logp_old_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return log r_t in nats, 0 outside the mask; the old policy is a constant."""
    return masked(logp_BT - logp_old_BT.detach(), mask_BT)


def token_ratio_BT(logp_BT: Tensor, logp_old_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return r_t = exp(log r_t) of every token (B, T); 1 outside the mask. Source: PPO, arXiv 1707.06347."""
    return log_ratio_BT(logp_BT, logp_old_BT, mask_BT).exp()


def sequence_mean_ratio_B1(logp_BT: Tensor, logp_old_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return s = exp(mean_t log r_t) of every sequence (B, 1), free of length. Source: GSPO, arXiv 2507.18071."""
    return sequence_mean_B(logp_BT - logp_old_BT.detach(), mask_BT).exp()[:, None]


def sequence_sum_ratio_B1(logp_BT: Tensor, logp_old_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return R = exp(sum_t log r_t), the exact ratio of every sequence (B, 1); its spread grows with length.

    Source: RLOO, arXiv 2402.14740.
    """
    return sequence_sum_B(logp_BT - logp_old_BT.detach(), mask_BT).exp()[:, None]


def sequence_token_ratio_BT(logp_BT: Tensor, logp_old_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return s_t = sg[s] pi_t / sg[pi_t] (B, T): GSPO's value with a gradient per token.

    sg[] stops the gradient. Differs from SEQUENCE_MEAN only when advantages differ within a sequence.
    Source: GSPO-token, arXiv 2507.18071.
    """
    s_B1 = sequence_mean_ratio_B1(logp_BT, logp_old_BT, mask_BT).detach()
    return s_B1 * log_ratio_BT(logp_BT, logp_BT, mask_BT).exp()


Ratio = Callable[[Tensor, Tensor, Tensor], Tensor]
RATIOS: Mapping[RatioLevel, Ratio] = MappingProxyType(
    {
        RatioLevel.TOKEN: token_ratio_BT,
        RatioLevel.SEQUENCE_MEAN: sequence_mean_ratio_B1,
        RatioLevel.SEQUENCE_SUM: sequence_sum_ratio_B1,
        RatioLevel.SEQUENCE_TOKEN: sequence_token_ratio_BT,
    }
)


def detached_ratio_BT(logp_BT: Tensor, logp_old_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return r_t without gradient: the importance weight that makes an expectation under old one under the policy."""
    with torch.no_grad():
        return token_ratio_BT(logp_BT, logp_old_BT, mask_BT)
