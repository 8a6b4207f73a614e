"""From rewards to advantages: which trajectories teach, and what each is worth.

Works on the trajectories of every process at once, so that baselines and scales over the batch are those of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rlvitals.grpo.advantages import Advantage, overlong_penalty_B
from rlvitals.grpo.advantages import groups as group_stats
from rlvitals.grpo.kl import Place
from rlvitals.grpo.recipes import DeadGroups, Overlong, Recipe
from rlvitals.grpo.rewards.plan import RewardPlan, Rule
from rlvitals.grpo.rollout import Trajectory

AdvantageOf = Callable[[Advantage, Tensor, Tensor, Tensor], Tensor]
"""(how, reward_BK, group_B, weight_K) -> advantage_B: `advantages.advantage_B` unless a lab replaces it."""

CACHE_SHARE = 0.2  # of the token budget in which the overlong penalty grows (DAPO, arXiv 2503.14476: 4,096 of 20,480)


@dataclass(frozen=True)
class Credit:
    """What a step learns from; tensors on the CPU.

    adv_B: advantages, 0 where a trajectory takes no part; rows: trajectories that enter the loss; judged_B: those whose
    reward counts in a baseline; dead_B: those of groups whose rewards are all equal.
    """

    adv_B: Tensor
    rows: Tensor
    judged_B: Tensor
    dead_B: Tensor


def credit(
    recipe: Recipe, trajectories: Sequence[Trajectory], plan: RewardPlan, max_tokens: int, advantage: AdvantageOf
) -> Credit:
    """Return advantages and the rows of the loss.

    A trajectory without a reward (verifier error) leaves baseline and loss; so does a group with fewer than two
    rewards. Truncated ones leave the loss under Overlong.FILTER and stay in the baseline.
    """
    shaped_B = _shaped_B(recipe, trajectories, max_tokens)
    dense_B = torch.unique(torch.tensor([t.group for t in trajectories]), return_inverse=True)[1]
    judged_B = shaped_B.isfinite()
    size_G = torch.zeros(int(dense_B.max()) + 1).index_add(0, dense_B, judged_B.float())
    judged_B = judged_B & (size_G[dense_B] >= 2)
    adv_B = torch.zeros_like(shaped_B)
    dead_B = torch.zeros_like(judged_B)
    if bool(judged_B.any()):
        group_B = torch.unique(dense_B[judged_B], return_inverse=True)[1]
        adv_B[judged_B] = _advantage_B(recipe, trajectories, judged_B, shaped_B, group_B, plan, advantage)
        dead_B[judged_B] = group_stats(shaped_B[judged_B], group_B).dead_B
    in_loss_B = judged_B.clone()
    if recipe.dead_groups is not DeadGroups.KEEP:
        in_loss_B &= ~dead_B
    if recipe.overlong is Overlong.FILTER:
        in_loss_B &= ~torch.tensor([t.truncated for t in trajectories])
    return Credit(adv_B, in_loss_B.nonzero().flatten(), judged_B, dead_B)


def _shaped_B(recipe: Recipe, trajectories: Sequence[Trajectory], max_tokens: int) -> Tensor:
    """Return rewards after the overlong and the KL penalty, NaN where the verifier failed."""
    reward_B = torch.tensor([t.reward for t in trajectories], dtype=torch.float32)
    if recipe.overlong is Overlong.SHAPE:
        cache = max(1, round(CACHE_SHARE * max_tokens))
        lengths_B = torch.tensor([t.tokens for t in trajectories])
        reward_B = reward_B + overlong_penalty_B(lengths_B, max_tokens, cache)
    term = recipe.kl_term
    if term is not None and term.place is Place.REWARD:
        coef_B = term.coef_B([t.item.family for t in trajectories], reward_B)
        reward_B = reward_B - coef_B * torch.tensor([t.divergence for t in trajectories], dtype=torch.float32)
    return reward_B


def _advantage_B(
    recipe: Recipe, trajectories: Sequence[Trajectory], judged_B: Tensor, shaped_B: Tensor, group_B: Tensor,
    plan: RewardPlan, advantage: AdvantageOf,
) -> Tensor:  # fmt: skip
    apart = recipe.advantage is Advantage.COMPONENTS or plan.rule is Rule.GDPO
    if not apart:
        return advantage(recipe.advantage, shaped_B[judged_B][:, None], group_B, shaped_B.new_ones(1))
    rows = judged_B.nonzero().flatten().tolist()
    reward_BK = shaped_B.new_tensor([[trajectories[i].parts[n] for n in plan.names] for i in rows])
    # shaping (overlong, KL) is a component of its own: what the total has beyond the parts
    rest_B = shaped_B[judged_B] - shaped_B.new_tensor([trajectories[i].reward for i in rows])
    weight_K = shaped_B.new_tensor([*plan.weights, 1.0])
    return advantage(Advantage.COMPONENTS, torch.cat([reward_BK, rest_B[:, None]], dim=1), group_B, weight_K)
