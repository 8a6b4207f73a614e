"""Divergence between the policy and its reference: estimators, their gradients, and where they are applied.

With x = log(pi / pi_ref) of a sampled token, all in nats per token. An estimator that is unbiased in value can have a
gradient that points elsewhere: the table says what the expected gradient of each is when the samples are the policy's
own. RKL is KL(pi || pi_ref), FKL is KL(pi_ref || pi).

  estimator   value         in the loss           in the reward
  k1          x             0: restrains nothing  grad RKL
  k2          x^2 / 2       grad RKL              neither
  k3          e^-x + x - 1  grad FKL              grad RKL - grad FKL, may push the wrong way
  k3+         k3            grad RKL (k2's)       as k3
  ratio k3    r k3          grad RKL              as k3
  exact       sum over V    grad RKL              0 at its own token: depends on the prefix alone

On samples of an older policy every one is biased, except ratio k3 and those multiplied by the detached ratio
(ratios.detached_ratio_BT); exact is then that of the policy after the older one's prefixes. In the loop its value and
gradient come from fused_kl.py. Sources: arXiv 2510.01555; ratio k3: DeepSeek-V3.2, arXiv 2512.02556; k3 in GRPO: arXiv
2402.03300.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import assert_never

import torch
from torch import Tensor

from rlvitals.grpo.entropy import wide
from rlvitals.grpo.masks import masked, sequence_sum_B
from rlvitals.grpo.ratios import token_ratio_BT


class Estimator(Enum):
    """How the divergence is estimated."""

    K1 = "k1"
    K2 = "k2"
    K3 = "k3"
    K3_PLUS = "k3+"
    RATIO_K3 = "ratio-k3"
    EXACT = "exact"


class Place(Enum):
    """Where the penalty enters: differentiated in the loss, or as a constant subtracted from the reward."""

    LOSS = "loss"
    REWARD = "reward"


@dataclass(frozen=True)
class KlTerm:
    """One penalty: estimator, place and coefficient (reward per nat), with exceptions by task family."""

    estimator: Estimator
    place: Place
    coef: float
    by_family: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, family: str) -> float:
        """Return the coefficient of a task family."""
        return self.by_family.get(family, self.coef)

    def coef_B(self, families: list[str], like: Tensor) -> Tensor:
        """Return the coefficient of each sequence, in the type and on the device of `like`."""
        return torch.tensor([self.of(name) for name in families], dtype=like.dtype, device=like.device)


def k1_BT(logp_BT: Tensor, logp_ref_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return x, signed; mean KL(pi || pi_ref). As a loss its expected gradient is zero."""
    return masked(logp_BT - logp_ref_BT.detach(), mask_BT)


def k2_BT(logp_BT: Tensor, logp_ref_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return x^2 / 2; its mean is biased, its expected gradient is that of KL(pi || pi_ref). Zero gradient at x = 0."""
    return 0.5 * k1_BT(logp_BT, logp_ref_BT, mask_BT).square()


def k3_BT(logp_BT: Tensor, logp_ref_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return e^-x + x - 1, never negative; mean KL(pi || pi_ref), expected gradient that of KL(pi_ref || pi).

    Zero gradient at x = 0. Grows as e^-x where the policy gives a token far less than the reference does.
    """
    x_BT = k1_BT(logp_BT, logp_ref_BT, mask_BT)
    return torch.expm1(-x_BT) + x_BT  # expm1: no cancellation near x = 0


def k3_plus_BT(logp_BT: Tensor, logp_ref_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return the value of k3 with the gradient of k2. Source: verl, "k3+"."""
    k2 = k2_BT(logp_BT, logp_ref_BT, mask_BT)
    return k2 + (k3_BT(logp_BT, logp_ref_BT, mask_BT) - k2).detach()


def ratio_k3_BT(logp_BT: Tensor, logp_old_BT: Tensor, logp_ref_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return r k3 with r differentiated too: value and gradient of KL(pi || pi_ref) from samples of the old policy.

    Source: DeepSeek-V3.2, arXiv 2512.02556.
    """
    return token_ratio_BT(logp_BT, logp_old_BT, mask_BT) * k3_BT(logp_BT, logp_ref_BT, mask_BT)


def exact_BT(logits_BTV: Tensor, logits_ref_BTV: Tensor, mask_BT: Tensor) -> Tensor:
    """Return sum_v pi (log pi - log pi_ref) of every position from both sets of logits; value and gradient exact.

    Of the positions only: how the policy changes which positions are reached is not in the gradient.
    """
    logp_BTV = torch.log_softmax(wide(logits_BTV), dim=-1)
    logp_ref_BTV = torch.log_softmax(logits_ref_BTV.detach().to(logp_BTV.dtype), dim=-1)
    return masked((logp_BTV.exp() * (logp_BTV - logp_ref_BTV)).sum(dim=-1), mask_BT)


def estimate_BT(
    estimator: Estimator, logp_BT: Tensor, logp_old_BT: Tensor, logp_ref_BT: Tensor, mask_BT: Tensor
) -> Tensor:
    """Return the estimate of every token; EXACT is no function of these: ValueError (score.divergence, exact_BT)."""
    match estimator:
        case Estimator.K1:
            return k1_BT(logp_BT, logp_ref_BT, mask_BT)
        case Estimator.K2:
            return k2_BT(logp_BT, logp_ref_BT, mask_BT)
        case Estimator.K3:
            return k3_BT(logp_BT, logp_ref_BT, mask_BT)
        case Estimator.K3_PLUS:
            return k3_plus_BT(logp_BT, logp_ref_BT, mask_BT)
        case Estimator.RATIO_K3:
            return ratio_k3_BT(logp_BT, logp_old_BT, logp_ref_BT, mask_BT)
        case Estimator.EXACT:
            raise ValueError("the exact divergence needs the logits of both policies: pass divergence_BT=exact_BT(...)")
        case _:
            assert_never(estimator)


def penalised_reward_B(reward_B: Tensor, divergence_BT: Tensor, mask_BT: Tensor, coef: float | Tensor) -> Tensor:
    """Return r_i - coef sum_t divergence (constant): the penalty of whole sequences, before advantages."""
    return reward_B - coef * sequence_sum_B(divergence_BT.detach(), mask_BT)


def token_reward_BT(reward_B: Tensor, divergence_BT: Tensor, mask_BT: Tensor, coef: float | Tensor) -> Tensor:
    """Return -coef divergence_t at every token plus the reward at the last one, for returns per token.

    Source: REINFORCE++, arXiv 2501.03262 (k1 of the old policy).
    """
    coef_B1 = coef[:, None] if isinstance(coef, Tensor) and coef.dim() == 1 else coef
    places_BT = torch.arange(mask_BT.shape[1], device=mask_BT.device).expand(mask_BT.shape)
    last_B1 = torch.where(mask_BT, places_BT, -1).amax(dim=1, keepdim=True)
    end_BT = mask_BT & (places_BT == last_B1)
    return masked(reward_B[:, None] * end_BT - coef_B1 * divergence_BT.detach(), mask_BT)
