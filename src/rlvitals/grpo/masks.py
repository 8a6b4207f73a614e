"""Sums and means over the tokens that count, and masks that keep whole sequences or tokens out of the loss."""

from __future__ import annotations

import torch
from torch import Tensor


def masked(x_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return x with exact zeros outside the mask; a NaN there reaches neither the value nor the gradient."""
    return torch.where(mask_BT, x_BT, torch.zeros((), dtype=x_BT.dtype, device=x_BT.device))


def lengths_B(mask_BT: Tensor) -> Tensor:
    """Return the number of counting tokens of each sequence (integers)."""
    return mask_BT.sum(dim=1)


def sequence_sum_B(x_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return the sum over the counting tokens of each sequence."""
    return masked(x_BT, mask_BT).sum(dim=1)


def sequence_mean_B(x_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return the mean over the counting tokens of each sequence, 0 for a sequence without any."""
    return sequence_sum_B(x_BT, mask_BT) / lengths_B(mask_BT).clamp(min=1)


def token_mean(x_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return the mean over all counting tokens, 0 when there are none."""
    return masked(x_BT, mask_BT).sum() / mask_BT.sum().clamp(min=1)


def per_token_BT(adv_B: Tensor, mask_BT: Tensor) -> Tensor:
    """Return a value per sequence repeated over its counting tokens, 0 elsewhere."""
    return masked(adv_B[:, None].expand(mask_BT.shape), mask_BT)


def overlong_filter_BT(mask_BT: Tensor, truncated_B: Tensor) -> Tensor:
    """Return the mask without the sequences that were cut at the length limit.

    A cut answer was not judged, so its reward of zero is no evidence against it. Source: DAPO, arXiv 2503.14476.
    """
    return mask_BT & ~truncated_B[:, None]


def top_entropy_BT(entropy_BT: Tensor, mask_BT: Tensor, share: float) -> Tensor:
    """Return the mask of the counting tokens whose entropy lies in the top `share` (0 to 1] of this batch.

    The loss is multiplied by it; its denominator stays the count of all tokens. The quantile interpolates linearly.
    Source: arXiv 2506.01939 (share 0.2).
    """
    if not 0.0 < share <= 1.0:
        raise ValueError(f"share of tokens kept by entropy: found {share}; expected above 0 and at most 1")
    if not bool(mask_BT.any()):
        return mask_BT
    # sorted by hand: torch.quantile refuses more than 2**24 values
    ordered_N = entropy_BT.detach()[mask_BT].sort().values
    place = (1.0 - share) * (ordered_N.numel() - 1)
    below = int(place)
    above = min(below + 1, ordered_N.numel() - 1)
    limit = torch.lerp(ordered_N[below], ordered_N[above], place - below)
    return mask_BT & (entropy_BT.detach() >= limit)
