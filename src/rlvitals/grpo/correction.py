"""Correction for the gap between the sampler and the trainer: weights and masks, all of them constants.

w_t = pi_old(trainer) / pi_sampler of a sampled token. Both are the same weights in different software, or the sampler
lags: without correction the expected gradient is of another objective. Truncation keeps every sample and bounds the
variance, at a bias; a mask drops what lies outside, at another. Log w itself before truncation. Sources: truncated, Yao
et al. 2025; masked, TRL (sequence, 3.0); token band, IcePop; off-policy sequences, DeepSeek-V3.2, arXiv 2512.02556.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

import torch
from torch import Tensor

from rlvitals.grpo.masks import masked, sequence_mean_B, sequence_sum_B


class Level(Enum):
    """How many tokens share one weight: one, the sequence by product, or the sequence by geometric mean.

    The product is the unbiased weight. The token weight ignores how the prefix was drawn; the geometric mean is no
    importance weight at all, but its size does not depend on length, so a bound on it is fair to long sequences.
    """

    TOKEN = "token"
    SEQUENCE = "sequence"
    GEOMETRIC = "geometric"


class Action(Enum):
    """What happens to a weight outside its bounds."""

    TRUNCATE = "truncate"  # moved to the bound
    MASK = "mask"  # set to 0; inside it is kept
    GATE = "gate"  # set to 0; inside it is 1


@dataclass(frozen=True)
class Correction:
    """One choice of weight: level, action and bounds on w (inclusive, no unit)."""

    level: Level
    action: Action
    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.low <= 1.0 <= self.high:  # false for NaN too
            raise ValueError(
                f"bounds of a sampler weight: found {self.low}, {self.high}; expected 0 <= low <= 1 <= high"
            )


TOKEN_TIS = Correction(Level.TOKEN, Action.TRUNCATE, 0.0, 2.0)  # Yao et al. 2025; Olmo 3, arXiv 2512.13961
SEQUENCE_TIS = Correction(Level.SEQUENCE, Action.TRUNCATE, 0.0, 2.0)
SEQUENCE_MIS = Correction(Level.SEQUENCE, Action.MASK, 0.0, 3.0)  # default of TRL 1.16
ICEPOP = Correction(Level.TOKEN, Action.MASK, 0.5, 5.0)  # IcePop, Ling team 2025
GEOMETRIC_MASK = Correction(Level.GEOMETRIC, Action.MASK, 0.99, 1.01)  # verl, rejection by geometric mean
GEOMETRIC_GATE = Correction(Level.GEOMETRIC, Action.GATE, 0.99, 1.01)


def raw_weight(level: Level, logp_old_BT: Tensor, logp_sampler_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return w before any bound, without gradient: (B, T) for TOKEN (1 outside the mask), else (B, 1)."""
    gap_BT = (logp_old_BT - logp_sampler_BT).detach()
    match level:
        case Level.TOKEN:
            return masked(gap_BT, mask_BT).exp()
        case Level.SEQUENCE:
            return sequence_sum_B(gap_BT, mask_BT).exp()[:, None]
        case Level.GEOMETRIC:
            return sequence_mean_B(gap_BT, mask_BT).exp()[:, None]
        case _:
            assert_never(level)


def bounded(choice: Correction, weight: Tensor) -> Tensor:
    """Return the weight after its bounds; NaN becomes 0 under MASK and GATE and stays NaN under TRUNCATE."""
    inside = (weight >= choice.low) & (weight <= choice.high)
    match choice.action:
        case Action.TRUNCATE:
            return weight.clamp(choice.low, choice.high)
        case Action.MASK:
            return torch.where(inside, weight, 0.0)
        case Action.GATE:
            return inside.to(weight.dtype)
        case _:
            assert_never(choice.action)


def weight_BT(choices: Sequence[Correction], logp_old_BT: Tensor, logp_sampler_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return the product of all chosen weights (B, T), 1 for none; the loss of each token is multiplied by it.

    A token of weight 0 gives no gradient and still counts in the denominator.
    """
    weight = torch.ones_like(logp_old_BT)
    for choice in choices:
        weight = weight * bounded(choice, raw_weight(choice.level, logp_old_BT, logp_sampler_BT, mask_BT))
    return weight


def off_policy_keep_B(logp_BT: Tensor, logp_sampler_BT: Tensor, adv_B: Tensor, mask_BT: Tensor, delta: float) -> Tensor:
    """Return which sequences stay (bool): out goes A < 0 with mean_t (logp_sampler - logp) above delta nats per token.

    Pushing down what the policy would no longer write only destroys; pushing up what it lost is kept. Source:
    DeepSeek-V3.2, arXiv 2512.02556 (delta unpublished; 0.1 in the book's script, 0.05 to 0.2 in others).
    """
    if not delta >= 0.0 or math.isinf(delta):
        raise ValueError(f"off-policy limit in nats per token: found {delta}; expected a finite number of 0 or more")
    gap_B = sequence_mean_B((logp_sampler_BT - logp_BT).detach(), mask_BT)
    return ~((adv_B < 0) & (gap_B > delta))
