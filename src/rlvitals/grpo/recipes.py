"""Published recipes, one row each, and the one function that turns a row and a batch into a loss.

A row names its choice on every axis; nothing is implied. Where a paper leaves a number open the row says so and takes
the common one. What a row asks of the loop (dead groups, long answers) is named here and done there. Scoring within
what the sampler could draw is no row's choice: the loop does it whenever top-p or top-k leaves something out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

import torch
from torch import Tensor

from rlvitals.grpo.advantages import Advantage
from rlvitals.grpo.aggregation import AGGREGATIONS, Aggregation, Counts, token_mean_of_step
from rlvitals.grpo.correction import GEOMETRIC_GATE, TOKEN_TIS, Correction, off_policy_keep_B, weight_BT
from rlvitals.grpo.kl import Estimator, KlTerm, Place, estimate_BT
from rlvitals.grpo.losses import Cispo, Clip, DualClip, Reinforce, Surrogate, surrogate
from rlvitals.grpo.masks import masked, sequence_mean_B, top_entropy_BT
from rlvitals.grpo.ratios import RATIOS, RatioLevel


class DeadGroups(Enum):
    """What the loop does with groups whose rewards are all equal."""

    KEEP = "keep"  # they count in every denominator and shrink the step; all tied, momentum alone moves the weights
    DROP = "drop"  # all tied, no step is made (docs/decisions/0026)
    RESAMPLE = "resample"  # dropped, and new prompts drawn until the batch is full


class Overlong(Enum):
    """What the loop does with answers that reach the length limit."""

    KEEP = "keep"
    FILTER = "filter"  # out of the loss: masks.overlong_filter_BT
    SHAPE = "shape"  # a growing penalty on the reward: advantages.overlong_penalty_B


@dataclass(frozen=True)
class Recipe:
    """The choices of one algorithm.

    off_policy_delta: nats per token, None for no mask; entropy_coef: loss units per nat; top_entropy_share: share of
    tokens that keep their loss, 1 for all.
    """

    source: str
    advantage: Advantage
    ratio_level: RatioLevel
    surrogate: Surrogate
    aggregation: Aggregation
    kl_term: KlTerm | None = None
    corrections: tuple[Correction, ...] = ()
    off_policy_delta: float | None = None
    entropy_coef: float = 0.0
    top_entropy_share: float = 1.0
    dead_groups: DeadGroups = DeadGroups.KEEP
    overlong: Overlong = Overlong.KEEP


@dataclass(frozen=True)
class Batch:
    """One micro-batch, all (B, T), logp in nats; only logp_BT, entropy_BT and divergence_BT carry gradient.

    logp_old_BT: the trainer's before the first minibatch; logp_sampler_BT: as reported while sampling; logp_ref_BT:
    the reference's, None without a penalty; divergence_BT: the exact divergence, for Estimator.EXACT alone; kl_coef_B:
    coefficient per sequence, None for the row's.
    """

    logp_BT: Tensor
    logp_old_BT: Tensor
    adv_BT: Tensor
    mask_BT: Tensor
    logp_sampler_BT: Tensor | None = None
    logp_ref_BT: Tensor | None = None
    entropy_BT: Tensor | None = None
    divergence_BT: Tensor | None = None
    kl_coef_B: Tensor | None = None


@dataclass(frozen=True)
class Loss:
    """The loss to call backward on, and its parts without gradient; micro-batches add up in every field but the last.

    total = policy + penalty - entropy bonus. loss_BT is the policy loss of each token after weights.
    """

    total: Tensor
    policy: Tensor
    penalty: Tensor
    bonus: Tensor
    loss_BT: Tensor


def policy_loss(recipe: Recipe, batch: Batch, counts: Counts) -> Loss:
    """Return the loss of a micro-batch under a recipe; counts are those of the whole step.

    ValueError when the recipe needs a tensor that the batch lacks.
    """
    mask_BT = batch.mask_BT
    logp_BT, adv_BT = masked(batch.logp_BT, mask_BT), masked(batch.adv_BT, mask_BT).detach()
    ratio = RATIOS[recipe.ratio_level](batch.logp_BT, batch.logp_old_BT, mask_BT)
    loss_BT = masked(surrogate(recipe.surrogate, ratio, logp_BT, adv_BT), mask_BT)
    loss_BT = loss_BT * policy_weight_BT(recipe, batch)
    aggregate = AGGREGATIONS[recipe.aggregation]
    policy = aggregate(loss_BT, mask_BT, counts)
    penalty = aggregate(penalty_BT(recipe, batch), mask_BT, counts)
    bonus = torch.zeros_like(policy)
    if recipe.entropy_coef:
        # always a token mean, as in TRL: its size should not depend on the choice for the policy loss
        entropy_BT = _needed(batch.entropy_BT, "entropy_BT", "entropy_coef")
        bonus = recipe.entropy_coef * token_mean_of_step(entropy_BT, mask_BT, counts)
    total = policy + penalty - bonus
    return Loss(total, policy.detach(), penalty.detach(), bonus.detach(), loss_BT.detach())


def policy_weight_BT(recipe: Recipe, batch: Batch) -> Tensor:
    """Return the constant that multiplies the policy loss of each token: corrections and masks, 1 for none.

    Dropped tokens stay in the denominators. The penalty and the entropy bonus are not weighted.
    """
    mask_BT = batch.mask_BT
    weight = torch.ones_like(batch.logp_BT)
    if recipe.corrections:
        sampler_BT = _needed(batch.logp_sampler_BT, "logp_sampler_BT", "corrections")
        weight = weight * weight_BT(recipe.corrections, batch.logp_old_BT, sampler_BT, mask_BT)
    if recipe.off_policy_delta is not None:
        sampler_BT = _needed(batch.logp_sampler_BT, "logp_sampler_BT", "off_policy_delta")
        adv_B = sequence_mean_B(batch.adv_BT, mask_BT)
        keep_B = off_policy_keep_B(batch.logp_BT, sampler_BT, adv_B, mask_BT, recipe.off_policy_delta)
        weight = weight * keep_B[:, None]
    if recipe.top_entropy_share < 1.0:
        entropy_BT = _needed(batch.entropy_BT, "entropy_BT", "top_entropy_share")
        weight = weight * top_entropy_BT(entropy_BT, mask_BT, recipe.top_entropy_share)
    return weight


def penalty_BT(recipe: Recipe, batch: Batch) -> Tensor:
    """Return coefficient times divergence of each token; zeros without a penalty or with one in the reward."""
    term = recipe.kl_term
    if term is None or term.place is Place.REWARD:
        return torch.zeros_like(batch.logp_BT)
    coef = term.coef if batch.kl_coef_B is None else batch.kl_coef_B[:, None]
    if term.estimator is Estimator.EXACT:
        return coef * masked(_needed(batch.divergence_BT, "divergence_BT", "kl_term"), batch.mask_BT)
    ref_BT = _needed(batch.logp_ref_BT, "logp_ref_BT", "kl_term")
    return coef * estimate_BT(term.estimator, batch.logp_BT, batch.logp_old_BT, ref_BT, batch.mask_BT)


def _needed(tensor: Tensor | None, name: str, by: str) -> Tensor:
    if tensor is None:
        raise ValueError(f"batch without {name}: the recipe's {by} needs it")
    return tensor


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        # no ratio, no clip, no penalty, log-probabilities summed over the answer
        "ch6-reinforce": Recipe(
            "Raschka, Build a Reasoning Model (From Scratch), chapter 6",
            Advantage.GROUP_STD, RatioLevel.TOKEN, Reinforce(), Aggregation.SEQUENCE_SUM,
        ),
        # the clip width is not in the paper: 0.2 is PPO's
        "grpo": Recipe(
            "arXiv 2402.03300",
            Advantage.GROUP_STD, RatioLevel.TOKEN, Clip(0.2, 0.2), Aggregation.SEQUENCE_MEAN,
            kl_term=KlTerm(Estimator.K3, Place.LOSS, 0.04),
        ),
        "dapo": Recipe(
            "arXiv 2503.14476",
            Advantage.GROUP_STD, RatioLevel.TOKEN, Clip(0.2, 0.28), Aggregation.TOKEN_MEAN,
            dead_groups=DeadGroups.RESAMPLE, overlong=Overlong.SHAPE,
        ),
        "dr-grpo": Recipe(
            "arXiv 2503.20783",
            Advantage.GROUP_MEAN, RatioLevel.TOKEN, Clip(0.2, 0.2), Aggregation.CONSTANT,
        ),
        "gspo": Recipe(
            "arXiv 2507.18071",
            Advantage.GROUP_STD, RatioLevel.SEQUENCE_MEAN, Clip(3e-4, 4e-4), Aggregation.SEQUENCE_MEAN,
        ),
        # the bound is ScaleRL's and TRL's (arXiv 2510.13786): the paper of CISPO, 2506.13585, leaves it open
        "cispo": Recipe(
            "arXiv 2506.13585",
            Advantage.GROUP_STD, RatioLevel.TOKEN, Cispo(5.0), Aggregation.TOKEN_MEAN,
        ),
        # what TRL calls bnpo: a token mean per micro-batch
        "bnpo": Recipe(
            "TRL, loss_type bnpo",
            Advantage.GROUP_STD, RatioLevel.TOKEN, Clip(0.2, 0.2), Aggregation.LOCAL_TOKEN_MEAN,
        ),
        # what the paper of that name proposes: the advantage; clip and mean are the common ones
        "bnpo-beta": Recipe(
            "arXiv 2506.02864",
            Advantage.BETA, RatioLevel.TOKEN, Clip(0.2, 0.2), Aggregation.TOKEN_MEAN,
        ),
        # the paper is about the advantage; the rest is GRPO without its penalty
        "gdpo": Recipe(
            "arXiv 2601.05242",
            Advantage.COMPONENTS, RatioLevel.TOKEN, Clip(0.2, 0.2), Aggregation.SEQUENCE_MEAN,
        ),
        "olmo3": Recipe(
            "arXiv 2512.13961",
            Advantage.GROUP_MEAN, RatioLevel.TOKEN, Clip(0.2, 0.272), Aggregation.TOKEN_MEAN,
            corrections=(TOKEN_TIS,), dead_groups=DeadGroups.RESAMPLE,
        ),
        # clip width, delta and the coefficient outside maths are not published: common values. The paper's kept
        # sampling mask needs no entry: see above
        "deepseek-v3.2": Recipe(
            "arXiv 2512.02556",
            Advantage.GROUP_MEAN, RatioLevel.TOKEN, Clip(0.2, 0.2), Aggregation.SEQUENCE_MEAN,
            kl_term=KlTerm(Estimator.RATIO_K3, Place.LOSS, 0.04, MappingProxyType({"math": 0.0})),
            off_policy_delta=0.1,
        ),
        # upper clip 0.26 to 0.28 in the paper
        "magistral": Recipe(
            "arXiv 2506.10910",
            Advantage.CENTRED_BATCH_STD, RatioLevel.TOKEN, Clip(0.2, 0.28), Aggregation.TOKEN_MEAN,
            dead_groups=DeadGroups.DROP,
        ),
        "dual-clip": Recipe(
            "arXiv 1912.09729; verl's default",
            Advantage.GROUP_STD, RatioLevel.TOKEN, DualClip(0.2, 0.2, 3.0), Aggregation.TOKEN_MEAN,
        ),
        # no published recipe: the trainer's own choice, each part with its source above
        "default": Recipe(
            "this trainer",
            Advantage.GROUP_MEAN, RatioLevel.TOKEN, DualClip(0.2, 0.28, 3.0), Aggregation.TOKEN_MEAN,
            corrections=(TOKEN_TIS, GEOMETRIC_GATE), off_policy_delta=0.1,
            dead_groups=DeadGroups.RESAMPLE, overlong=Overlong.FILTER,
        ),
    }
)  # fmt: skip
