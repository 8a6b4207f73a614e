"""Losses per token or per sequence: third of the four axes of a policy loss, and published losses that fit no row.

Signs are those of a loss to be minimised. r is a ratio (B, T) or (B, 1), A an advantage (B, 1) or (B, T), a constant.
Functions ending in _B return one value per sequence, to be averaged over sequences; the others broadcast, to be reduced
by aggregation.py. At r = 1 the gradient of each is -A d(logp): REINFORCE.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import assert_never

import torch
from torch import Tensor

from rlvitals.grpo.masks import lengths_B, masked, sequence_mean_B, sequence_sum_B, token_mean
from rlvitals.grpo.ratios import log_ratio_BT, sequence_mean_ratio_B1, token_ratio_BT


@dataclass(frozen=True)
class Reinforce:
    """-A logp, no ratio."""


@dataclass(frozen=True)
class Clip:
    """PPO's clip with its two distances from 1."""

    low: float
    high: float


@dataclass(frozen=True)
class DualClip:
    """PPO's clip, and for A < 0 the loss is at most bound |A|."""

    low: float
    high: float
    bound: float


@dataclass(frozen=True)
class TwoSided:
    """PPO's clip with the ratio itself cut at delta, whatever the sign of A."""

    low: float
    high: float
    delta: float


@dataclass(frozen=True)
class Cispo:
    """REINFORCE weighted by a bounded ratio; bounds on the ratio itself, not distances from 1."""

    ratio_max: float
    ratio_min: float = 0.0


Surrogate = Reinforce | Clip | DualClip | TwoSided | Cispo


def surrogate(choice: Surrogate, ratio: Tensor, logp_BT: Tensor, adv: Tensor) -> Tensor:
    """Return the loss of each token (or sequence, for a ratio per sequence) under the chosen surrogate."""
    match choice:
        case Reinforce():
            return reinforce(logp_BT, adv)
        case Clip(low, high):
            return clipped(ratio, adv, low, high)
        case DualClip(low, high, bound):
            return dual_clipped(ratio, adv, low, high, bound=bound)
        case TwoSided(low, high, delta):
            return two_sided(ratio, adv, low, high, delta=delta)
        case Cispo(ratio_max, ratio_min):
            return cispo(ratio, logp_BT, adv, ratio_max, ratio_min)
        case _:
            assert_never(choice)


def reinforce(logp_BT: Tensor, adv: Tensor) -> Tensor:
    """Return -A logp. Zero gradient only at A = 0. Source: Williams 1992; GPG, arXiv 2504.02546."""
    return -adv * logp_BT


def clipped(ratio: Tensor, adv: Tensor, low: float, high: float) -> Tensor:
    """Return -min(r A, clip(r, 1 - low, 1 + high) A).

    Zero gradient for A > 0 with r > 1 + high, and for A < 0 with r < 1 - low: where the ratio already moved the way A
    asks. Nowhere else. Source: PPO, arXiv 1707.06347; low != high: DAPO, arXiv 2503.14476.
    """
    return -torch.minimum(ratio * adv, ratio.clamp(1 - low, 1 + high) * adv)


def dual_clipped(ratio: Tensor, adv: Tensor, low: float, high: float, *, bound: float) -> Tensor:
    """Return the clipped loss, for A < 0 at most -bound A (bound > 1 + high).

    Zero gradient where clipped() has none, and for A < 0 with r > bound. Source: arXiv 1912.09729; verl's default (3).
    """
    loss = clipped(ratio, adv, low, high)
    return torch.where(adv < 0, torch.minimum(loss, -bound * adv), loss)


def two_sided(ratio: Tensor, adv: Tensor, low: float, high: float, *, delta: float) -> Tensor:
    """Return -min(min(r, delta) A, clip(r) A) (delta > 1 + high): zero gradient as dual_clipped(bound=delta).

    Source: INTELLECT-2, arXiv 2505.07291.
    """
    return -torch.minimum(ratio.clamp(max=delta) * adv, ratio.clamp(1 - low, 1 + high) * adv)


def cispo(ratio: Tensor, logp_BT: Tensor, adv: Tensor, ratio_max: float, ratio_min: float = 0.0) -> Tensor:
    """Return -sg[clip(r, ratio_min, ratio_max)] A logp: the weight is bounded, the gradient is never cut.

    Zero gradient only at A = 0. Bounds differ by code: 5 (TRL, ScaleRL), 1.28 (slime), 0.8 to 1.28 (verl). Source:
    MiniMax-M1, arXiv 2506.13585.
    """
    return -ratio.detach().clamp(ratio_min, ratio_max) * adv * logp_BT


def clip_regions(ratio: Tensor, adv: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Return where clipped() cuts the gradient: (below with A < 0, above with A > 0), booleans."""
    return (ratio < 1 - low) & (adv < 0), (ratio > 1 + high) & (adv > 0)


def gmpo_B(logp_BT: Tensor, logp_old_BT: Tensor, adv_B: Tensor, mask_BT: Tensor, *, width: float = 0.4) -> Tensor:
    """Return -A exp(mean_t of log r, clipped at +-width nats on the side A asks for).

    A token gives no gradient once its log r moved the way A asks by more than width. Source: GMPO, arXiv 2507.20673.
    """
    log_r_BT = log_ratio_BT(logp_BT, logp_old_BT, mask_BT)
    sign_B1 = adv_B.sign()[:, None]
    cut_BT = sign_B1 * torch.minimum(sign_B1 * log_r_BT, sign_B1 * log_r_BT.clamp(-width, width))
    return -adv_B * sequence_mean_B(cut_BT, mask_BT).exp()


def luspo_B(
    logp_BT: Tensor, logp_old_BT: Tensor, adv_B: Tensor, mask_BT: Tensor, *, low: float = 2e-3, high: float = 2.5e-3
) -> Tensor:
    """Return |o_i| times the clipped loss of GSPO's ratio: GSPO without its preference for short answers.

    Zero gradient for the whole sequence where clipped() has none. Source: LUSPO, arXiv 2602.05261.
    """
    ratio_B1 = sequence_mean_ratio_B1(logp_BT, logp_old_BT, mask_BT)
    return clipped(ratio_B1, adv_B[:, None], low, high)[:, 0] * lengths_B(mask_BT)


def sapo(ratio: Tensor, adv: Tensor, *, tau_pos: float = 1.0, tau_neg: float = 1.05) -> Tensor:
    """Return -(4/tau) sigmoid(tau (r - 1)) A, tau by the sign of A: a soft gate in place of the clip.

    The gradient fades on both sides of r = 1 and is zero only at A = 0. Source: SAPO, arXiv 2511.20347.
    """
    positive = (adv > 0).to(ratio.dtype)  # arithmetic, as torch.where of two floats is float32
    tau = tau_neg + (tau_pos - tau_neg) * positive
    return -torch.sigmoid(tau * (ratio - 1)) * (4 / tau) * adv


def vespo_weight_B1(logp_BT: Tensor, logp_old_BT: Tensor, adv_B: Tensor, mask_BT: Tensor) -> Tensor:
    """Return phi = exp(lam + k log w - lam w), a constant; w the ratio of the sequence, (k, lam) = (2, 3) for A > 0 and
    (3, 2) else; 1 at w = 1. Source: VESPO, arXiv 2602.10693.
    """
    log_w_B = sequence_sum_B((logp_BT - logp_old_BT).detach(), mask_BT)
    k_B = torch.where(adv_B > 0, 2.0, 3.0).to(log_w_B.dtype)
    lam_B = torch.where(adv_B > 0, 3.0, 2.0).to(log_w_B.dtype)
    return (lam_B + k_B * log_w_B - lam_B * log_w_B.exp()).exp()[:, None]


def vespo(logp_BT: Tensor, logp_old_BT: Tensor, adv_B: Tensor, mask_BT: Tensor) -> Tensor:
    """Return -phi A logp: zero gradient at A = 0, and nearly so where the sequence ratio is far from 1."""
    return -vespo_weight_B1(logp_BT, logp_old_BT, adv_B, mask_BT) * adv_B[:, None] * logp_BT


def probability_keep_BT(logp_BT: Tensor, logp_from_BT: Tensor, adv: Tensor, *, width: float = 0.2) -> Tensor:
    """Return which tokens stay (bool): out goes A > 0 with pi - pi_from > width, A < 0 with pi - pi_from < -width.

    A trust region in probability, not in ratio: rare tokens may move by any factor. Source: DPPO, arXiv 2602.04879.
    """
    moved_BT = logp_BT.detach().exp() - logp_from_BT.detach().exp()
    return torch.where(adv > 0, moved_BT <= width, moved_BT >= -width)


def dppo(
    logp_BT: Tensor, logp_old_BT: Tensor, adv: Tensor, mask_BT: Tensor, *, width: float = 0.2, ratio_max: float = 20.0
) -> Tensor:
    """Return -sg[min(r, ratio_max)] A logp on the tokens of probability_keep_BT; zero gradient on the others."""
    keep_BT = probability_keep_BT(logp_BT, logp_old_BT, adv, width=width)
    weight_BT = token_ratio_BT(logp_BT, logp_old_BT, mask_BT).detach().clamp(max=ratio_max)
    return masked(-weight_BT * adv * logp_BT, mask_BT & keep_BT)


def prime_rl(
    logp_BT: Tensor, logp_sampler_BT: Tensor, adv: Tensor, mask_BT: Tensor, *, width: float = 0.2, coef: float = 1e-3
) -> Tensor:
    """Return -A r on the tokens that probability_keep_BT keeps, plus coef (log r)^2 on all; r against the sampler.

    A token outside still feels the squared log-ratio, so only log r = 0 there gives no gradient. Source: prime-rl;
    the square as in Kimi K2, arXiv 2507.20534.
    """
    keep_BT = probability_keep_BT(logp_BT, logp_sampler_BT, adv, width=width)
    log_r_BT = log_ratio_BT(logp_BT, logp_sampler_BT, mask_BT)
    return masked(-adv * log_r_BT.exp(), mask_BT & keep_BT) + coef * log_r_BT.square()


def dro(logp_BT: Tensor, logp_old_BT: Tensor, adv: Tensor, mask_BT: Tensor, *, beta: float = 0.1) -> Tensor:
    """Return -(A logp - beta/2 (log r)^2): zero gradient at log r = A / beta. Source: DRO, arXiv 2405.19107; verl."""
    log_r_BT = log_ratio_BT(logp_BT, logp_old_BT, mask_BT)
    return masked(-adv * logp_BT, mask_BT) + 0.5 * beta * log_r_BT.square()


def kimi_B(logp_BT: Tensor, logp_old_BT: Tensor, adv_B: Tensor, mask_BT: Tensor, *, tau: float = 0.1) -> Tensor:
    """Return (A - tau sum_t log r)^2 / (2 tau), A = r - mu: zero gradient where the log-ratio equals A / tau.

    Source: Kimi k1.5, arXiv 2501.12599; K2, arXiv 2507.20534.
    """
    log_w_B = sequence_sum_B(logp_BT - logp_old_BT.detach(), mask_BT)
    return (adv_B - tau * log_w_B).square() / (2 * tau)


def luffy(logp_BT: Tensor, on_policy_loss_BT: Tensor, adv: Tensor, demo_B: Tensor, *, gamma: float = 0.1) -> Tensor:
    """Return the given loss on own samples and -A pi / (pi + gamma) on demonstrations (demo_B true).

    The shaping lifts the gradient of rare demonstrated tokens; it vanishes as pi goes to 0, and is damped near 1.
    Source: LUFFY, arXiv 2504.14945.
    """
    prob_BT = logp_BT.exp()
    return torch.where(demo_B[:, None], -adv * prob_BT / (prob_BT + gamma), on_policy_loss_BT)


def covariance_BT(logp_BT: Tensor, adv_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return (A - mean A)(logp - mean logp), means over tokens, a constant: what drives entropy down where positive.

    Source: arXiv 2505.22617.
    """
    logp_BT, adv_BT = masked(logp_BT.detach(), mask_BT), masked(adv_BT.expand(mask_BT.shape), mask_BT)
    return masked((adv_BT - token_mean(adv_BT, mask_BT)) * (logp_BT - token_mean(logp_BT, mask_BT)), mask_BT)


def clip_cov(
    ratio_BT: Tensor, adv: Tensor, cov_BT: Tensor, low: float, high: float, *, band: tuple[float, float]
) -> Tensor:
    """Return the clipped loss, zero (no gradient) on unclipped tokens with band[0] < covariance < band[1].

    Takes all tokens of the band; the paper draws a share of 2e-4 of them. Source: Clip-Cov, arXiv 2505.22617.
    """
    cut = torch.logical_or(*clip_regions(ratio_BT, adv, low, high))
    drop_BT = (cov_BT > band[0]) & (cov_BT < band[1]) & ~cut
    return clipped(ratio_BT, adv, low, high).masked_fill(drop_BT, 0.0)


def kl_cov(
    logp_BT: Tensor, logp_old_BT: Tensor, adv: Tensor, mask_BT: Tensor, *, share: float, coef: float = 1.0
) -> Tensor:
    """Return -A r, plus coef |log r| on the share of tokens with the highest covariance (at least one).

    Never cut: zero gradient only at A = 0 outside that share. Source: KL-Cov, arXiv 2505.22617.
    """
    log_r_BT = log_ratio_BT(logp_BT, logp_old_BT, mask_BT)
    cov_N = covariance_BT(logp_BT, adv, mask_BT).masked_fill(~mask_BT, -math.inf).flatten()
    count = min(max(int(int(mask_BT.sum()) * share), 1), cov_N.numel())
    chosen_BT = torch.zeros_like(cov_N, dtype=torch.bool).index_fill(0, cov_N.topk(count).indices, True)
    return masked(-adv * log_r_BT.exp(), mask_BT) + coef * log_r_BT.abs() * chosen_BT.view_as(mask_BT)
