"""Advantages from rewards of groups: first of the four axes of a policy loss.

reward_B is in reward units, group_B holds the group of each sequence (integers 0 to P-1, any order, any sizes). mu, s
and p are mean, standard deviation and success rate of a group. A group whose rewards are all equal gives exact zeros in
every function here that subtracts its mean, so its policy gradient is zero. Standard deviations are of a sample
(divisor n-1) unless said otherwise: [1, 0, 0, 0] gives 0.5, not 0.433.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from rlvitals.grpo.masks import masked, per_token_BT

STD_EPS = 1e-4  # reward units; TRL's, verl has 1e-6
MEAN_EPS = 1e-6  # reward units; SkyRL, MaxRL
WHITEN_EPS = 1e-8  # squared reward units; verl, OpenRLHF
BETA_WEIGHT_MAX = 1e6  # no unit; code of arXiv 2506.02864


class Advantage(Enum):
    """How rewards become advantages."""

    GROUP_STD = "group-std"
    GROUP_MEAN = "group-mean"
    BATCH_STD = "batch-std"
    CENTRED_BATCH_STD = "centred-batch-std"
    LEAVE_ONE_OUT = "leave-one-out"
    GROUP_RATE = "group-rate"
    BETA = "beta"
    COMPONENTS = "components"


class Groups(NamedTuple):
    """Statistics of each sequence's own group, repeated per sequence."""

    size_B: Tensor
    mean_B: Tensor
    centred_B: Tensor
    dead_B: Tensor


def group_sum_B(x_B: Tensor, group_B: Tensor) -> Tensor:
    """Return the sum over each sequence's own group."""
    total_P = torch.zeros(int(group_B.max()) + 1, dtype=x_B.dtype, device=x_B.device)
    return total_P.index_add(0, group_B, x_B)[group_B]


def groups(reward_B: Tensor, group_B: Tensor) -> Groups:
    """Return size, mean, centred rewards and whether all rewards of the group are equal.

    ValueError for no sequences, a group of one (it has no baseline), or rewards that are not finite.
    """
    if reward_B.numel() == 0:
        raise ValueError("advantages of no sequences: found 0 rewards; expected one group or more")
    if not bool(torch.isfinite(reward_B).all()):
        bad = (~torch.isfinite(reward_B)).nonzero().flatten().tolist()
        raise ValueError(f"rewards that are not finite: found them at sequences {bad[:8]}; expected numbers")
    size_B = group_sum_B(torch.ones_like(reward_B), group_B)
    if bool((size_B < 2).any()):
        alone = sorted(set(group_B[size_B < 2].tolist()))
        raise ValueError(f"groups of one sequence: found {alone[:8]}; expected two or more answers per prompt")
    mean_B = group_sum_B(reward_B, group_B) / size_B
    ends = torch.zeros(int(group_B.max()) + 1, dtype=reward_B.dtype, device=reward_B.device)
    low_B = ends.scatter_reduce(0, group_B, reward_B, "amin", include_self=False)[group_B]
    high_B = ends.scatter_reduce(0, group_B, reward_B, "amax", include_self=False)[group_B]
    dead_B = low_B == high_B
    # exact: a mean of equal numbers can differ from them in the last bit, and dividing by a tiny s would blow that up
    return Groups(size_B, mean_B, torch.where(dead_B, 0.0, reward_B - mean_B), dead_B)


def group_std_B(reward_B: Tensor, group_B: Tensor, *, ddof: int = 1, eps: float = STD_EPS) -> Tensor:
    """Return (r - mu) / (s + eps). Source: GRPO, arXiv 2402.03300; ddof 1 and eps as in TRL."""
    found = groups(reward_B, group_B)
    std_B = (group_sum_B(found.centred_B.square(), group_B) / (found.size_B - ddof)).sqrt()
    return torch.where(found.dead_B, 0.0, found.centred_B / (std_B + eps))


def group_mean_B(reward_B: Tensor, group_B: Tensor) -> Tensor:
    """Return r - mu. Source: Dr. GRPO, arXiv 2503.20783; also DeepSeek-V3.2 and Olmo 3."""
    return groups(reward_B, group_B).centred_B


def batch_std_B(reward_B: Tensor, group_B: Tensor, *, eps: float = STD_EPS) -> Tensor:
    """Return (r - mu) / (std of all rewards + eps). Source: ScaleRL, arXiv 2510.13786; TRL scale_rewards "batch"."""
    return groups(reward_B, group_B).centred_B / (reward_B.std() + eps)


def centred_batch_std_B(reward_B: Tensor, group_B: Tensor, *, eps: float = 0.0) -> Tensor:
    """Return (r - mu) / (std of all r - mu + eps), zeros when no group is informative.

    Source: Magistral, arXiv 2506.10910.
    """
    found = groups(reward_B, group_B)
    if bool(found.dead_B.all()):
        return torch.zeros_like(reward_B)
    return found.centred_B / (found.centred_B.std() + eps)


def leave_one_out_B(reward_B: Tensor, group_B: Tensor) -> Tensor:
    """Return r - mean of the others = n/(n-1) (r - mu), unbiased for any n >= 2. Source: RLOO, arXiv 2402.14740."""
    found = groups(reward_B, group_B)
    return found.centred_B * found.size_B / (found.size_B - 1)


def group_rate_B(reward_B: Tensor, group_B: Tensor, *, eps: float = MEAN_EPS) -> Tensor:
    """Return (r - mu) / (mu + eps), for rewards of 0 or more: rare success weighs most. Source: MaxRL, as in SkyRL."""
    found = groups(reward_B, group_B)
    return found.centred_B / (found.mean_B + eps)


def beta_B(reward_B: Tensor, group_B: Tensor) -> Tensor:
    """Return (r - p) / Beta(p; alpha, beta), rewards 0 or 1, the density fitted to the success rates of the batch.

    a, b by moments of p over groups; alpha = max(1, 1 + a/3), beta = max(1, 1 + b/3); the weight is at most 1e6. Rates
    without spread (or a single group) have no fit: the density is then 1. Source: BNPO, arXiv 2506.02864, and its code.
    """
    found = groups(reward_B, group_B)
    every_P = torch.full((int(group_B.max()) + 1,), torch.nan, dtype=reward_B.dtype, device=reward_B.device)
    every_P = every_P.scatter(0, group_B, found.mean_B)
    rate_P = every_P[every_P.isfinite()]  # an index without sequences has no rate
    mean, var = rate_P.mean(), rate_P.var() if rate_P.numel() > 1 else torch.zeros_like(rate_P[0])
    if not bool(var > 0):
        return found.centred_B
    total = mean * (1 - mean) / var - 1
    alpha, beta = (1 + mean * total / 3).clamp(min=1), (1 + (1 - mean) * total / 3).clamp(min=1)
    log_norm = torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(alpha + beta)
    density_B = (torch.xlogy(alpha - 1, found.mean_B) + torch.special.xlog1py(beta - 1, -found.mean_B) - log_norm).exp()
    return torch.where(found.dead_B, 0.0, found.centred_B * (1 / density_B).clamp(max=BETA_WEIGHT_MAX))


def length_baseline_B(reward_B: Tensor, group_B: Tensor, length_B: Tensor) -> Tensor:
    """Return r - sum L r / sum L over the group, lengths in tokens: the baseline of least variance when the gradient's
    size grows with length. Source: OPO, arXiv 2505.23585.
    """
    found = groups(reward_B, group_B)
    weight_B = length_B.to(reward_B.dtype)
    base_B = group_sum_B(weight_B * reward_B, group_B) / group_sum_B(weight_B, group_B)
    return torch.where(found.dead_B, 0.0, reward_B - base_B)


def rescaled_group_mean_B(reward_B: Tensor, group_B: Tensor, *, scale: float = 1.0) -> Tensor:
    """Return alpha (r - mu) / scale with alpha = B / (B - sequences of dead groups); all dead gives zeros.

    Keeps the size of the gradient when groups carry no signal. Source: GPG, arXiv 2504.02546.
    """
    found = groups(reward_B, group_B)
    live = int((~found.dead_B).sum())
    return found.centred_B * (reward_B.numel() / max(live, 1) / scale)


def rescaled_by_nonzero_B(reward_B: Tensor, group_B: Tensor) -> Tensor:
    """Return (r - mu) B / count of nonzero rewards: verl's reading of GPG, another number than the paper's."""
    nonzero = int(reward_B.count_nonzero())
    return group_mean_B(reward_B, group_B) * (reward_B.numel() / max(nonzero, 1))


def components_B(
    reward_BK: Tensor, group_B: Tensor, weight_K: Tensor, *, ddof: int = 1, eps: float = STD_EPS
) -> Tensor:
    """Return z(sum_k w_k z_group(r_k)), z over the batch last: a rare component is not drowned by a common one.

    Source: GDPO, arXiv 2601.05242.
    """
    parts = [
        w * group_std_B(r_B, group_B, ddof=ddof, eps=eps) for r_B, w in zip(reward_BK.unbind(1), weight_K, strict=True)
    ]
    sum_B = torch.stack(parts).sum(dim=0)
    return (sum_B - sum_B.mean()) / (sum_B.std(correction=ddof) + eps)


def return_to_go_BT(token_reward_BT: Tensor, mask_BT: Tensor, gamma: float = 1.0) -> Tensor:
    """Return G_t = r_t + gamma G_{t+1} within each sequence; gamma has no unit."""
    out, later_B = [], torch.zeros_like(token_reward_BT[:, 0])
    for reward_B in masked(token_reward_BT, mask_BT).flip(1).unbind(1):
        later_B = reward_B + gamma * later_B
        out.append(later_B)
    return masked(torch.stack(out, dim=1).flip(1), mask_BT)


def whiten_BT(x_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return (x - mean) / sqrt(var + 1e-8) over all counting tokens (unbiased variance), 0 outside the mask.

    ValueError for fewer than two tokens. Source: REINFORCE++, arXiv 2501.03262.
    """
    values = x_BT[mask_BT]
    if values.numel() < 2:
        raise ValueError(f"whitening over tokens: found {values.numel()}; expected two or more")
    return masked((x_BT - values.mean()) * torch.rsqrt(values.var() + WHITEN_EPS), mask_BT)


def whitened_group_mean_BT(reward_B: Tensor, group_B: Tensor, mask_BT: Tensor) -> Tensor:
    """Return r - mu whitened over tokens: REINFORCE++-baseline. A dead group's advantage is no longer zero.

    Source: arXiv 2501.03262.
    """
    return whiten_BT(per_token_BT(group_mean_B(reward_B, group_B), mask_BT), mask_BT)


def overlong_penalty_B(length_B: Tensor, max_tokens: int, cache_tokens: int) -> Tensor:
    """Return 0 up to max - cache tokens, ((max - cache) - L) / cache above, -1 beyond max; added to the reward.

    Source: DAPO, arXiv 2503.14476.
    """
    if not 0 < cache_tokens <= max_tokens:
        raise ValueError(f"overlong shaping in tokens: found {cache_tokens} of {max_tokens}; expected 0 < cache <= max")
    over_B = (max_tokens - cache_tokens - length_B).to(torch.get_default_dtype()) / cache_tokens
    return over_B.clamp(min=-1.0, max=0.0)


OfRewards = Callable[[Tensor, Tensor], Tensor]
# COMPONENTS is absent: it needs the parts of the reward, not their sum (components_B).
ADVANTAGES: Mapping[Advantage, OfRewards] = MappingProxyType(
    {
        Advantage.GROUP_STD: group_std_B,
        Advantage.GROUP_MEAN: group_mean_B,
        Advantage.BATCH_STD: batch_std_B,
        Advantage.CENTRED_BATCH_STD: centred_batch_std_B,
        Advantage.LEAVE_ONE_OUT: leave_one_out_B,
        Advantage.GROUP_RATE: group_rate_B,
        Advantage.BETA: beta_B,
    }
)


def advantage_B(how: Advantage, reward_BK: Tensor, group_B: Tensor, weight_K: Tensor) -> Tensor:
    """Return the advantages of rewards in K components with weights; all but COMPONENTS work on the weighted sum."""
    if how is Advantage.COMPONENTS:
        return components_B(reward_BK, group_B, weight_K)
    return ADVANTAGES[how]((reward_BK * weight_K).sum(dim=1), group_B)
