"""Statistics of the policy ratio over a minibatch: level, spread, and what the clip cuts, by side and sign."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from rlvitals.grpo.losses import Cispo, Clip, DualClip, Reinforce, Surrogate, TwoSided, clip_regions
from rlvitals.grpo.ratios import RATIOS, log_ratio_BT
from rlvitals.grpo.recipes import Recipe


def clip_bounds(choice: Surrogate) -> tuple[float, float] | None:
    """Return the distances from 1 at which a surrogate cuts, None when it never does."""
    match choice:
        case Reinforce():
            return None
        case Cispo(ratio_max, ratio_min):
            return 1.0 - ratio_min, ratio_max - 1.0
        case Clip(low, high) | DualClip(low, high) | TwoSided(low, high):
            return low, high


@dataclass
class RatioStats:
    """Counts and sums over ratios (tokens, or sequences for a recipe with sequence ratios).

    cut_low: below the range with A < 0; cut_high: above it with A > 0: no gradient. below, above: whatever the sign.
    """

    count: int = 0
    total: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    cut_low: int = 0
    cut_high: int = 0
    below: int = 0
    above: int = 0
    tokens: int = 0
    k3_total: float = 0.0  # nats: k3 of old to new policy, summed over tokens

    def take(self, recipe: Recipe, logp_BT: Tensor, old_BT: Tensor, adv_BT: Tensor, mask_BT: Tensor) -> None:
        """Add the ratios of a micro-batch."""
        ratio = RATIOS[recipe.ratio_level](logp_BT, old_BT, mask_BT)
        per_token = ratio.shape == mask_BT.shape
        values = ratio[mask_BT] if per_token else ratio[:, 0]
        adv = adv_BT[mask_BT] if per_token else adv_BT.sum(dim=1)
        if not values.numel():
            return
        self.count += values.numel()
        self.total += float(values.double().sum())
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        log_r_N = log_ratio_BT(logp_BT, old_BT, mask_BT)[mask_BT].double()
        self.tokens += log_r_N.numel()
        self.k3_total += float((torch.expm1(log_r_N) - log_r_N).sum())
        bounds = clip_bounds(recipe.surrogate)
        if bounds is None:
            return
        cut_low, cut_high = clip_regions(values, adv, *bounds)
        self.cut_low += int(cut_low.sum())
        self.cut_high += int(cut_high.sum())
        self.below += int((values < 1 - bounds[0]).sum())
        self.above += int((values > 1 + bounds[1]).sum())

    def add(self, other: RatioStats) -> None:
        """Add the statistics of another minibatch."""
        for name in ("count", "total", "cut_low", "cut_high", "below", "above", "tokens", "k3_total"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)

    def share(self, name: str) -> float:
        """Return a count as a share of all ratios, NaN without any."""
        return float(getattr(self, name)) / self.count if self.count else math.nan

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else math.nan

    @property
    def k3_mean(self) -> float:
        """Mean over tokens of k3(old to new policy), nats."""
        return self.k3_total / self.tokens if self.tokens else math.nan
