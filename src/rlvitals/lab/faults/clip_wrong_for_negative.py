"""The clip takes the wrong side for negative advantages: nothing stops pushing a token down."""

from __future__ import annotations

from dataclasses import replace

import torch

from rlvitals.grpo.aggregation import AGGREGATIONS, Counts
from rlvitals.grpo.config import Config
from rlvitals.grpo.masks import masked
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.ratios import RATIOS
from rlvitals.grpo.ratiostats import clip_bounds
from rlvitals.grpo.recipes import Batch, Loss, Recipe
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength


def wrong_BT(ratio: torch.Tensor, adv_BT: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Return -max(r A, clip(r) A): the pessimistic side is the smaller one, whatever the sign of A."""
    return -torch.maximum(ratio * adv_BT, ratio.clamp(1 - low, 1 + high) * adv_BT)


def inject(given: Injection) -> tuple[Config, Parts]:
    inner = given.parts.loss

    def loss(recipe: Recipe, batch: Batch, counts: Counts) -> Loss:
        right = inner(recipe, replace(batch, adv_BT=batch.adv_BT.clamp(min=0.0)), counts)
        ratio = RATIOS[recipe.ratio_level](batch.logp_BT, batch.logp_old_BT, batch.mask_BT)
        bounds = clip_bounds(recipe.surrogate) or (0.2, 0.2)
        loss_BT = masked(wrong_BT(ratio, batch.adv_BT.clamp(max=0.0), *bounds), batch.mask_BT)
        added = AGGREGATIONS[recipe.aggregation](loss_BT, batch.mask_BT, counts)
        return replace(right, total=right.total + added, policy=right.policy + added.detach())

    return given.config, replace(given.parts, loss=loss)


FAULT = Fault(
    name="clip-wrong-for-negative",
    broken="The loss takes the larger of the two surrogates where the advantage is negative.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("8 updates per rollout", 1.0, Harm.MILD),),
    roots=(),
    allowed=("U002", "U003", "U010", "K001", "E002", "E004", "R002", "R014", "S001", "H001", "H002", "H003", "R010"),
    hidden=dict.fromkeys(
        ("own", "trl", "verl", "chapter7"),
        "which side the loss cuts is in no log, and ratios are only twice as far from 1 as with the right clip",
    ),
    settings={"epochs": 4},
    fix="Take the smaller of r A and clip(r) A for either sign.",
)
