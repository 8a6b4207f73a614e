"""The last token of every completion is left out of the loss: the policy is never told when to stop."""

from __future__ import annotations

from dataclasses import replace

import torch

from rlvitals.grpo.aggregation import Counts
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.recipes import Batch, Loss, Recipe
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength


def without_last_BT(mask_BT: torch.Tensor) -> torch.Tensor:
    """Return the mask without the last counting position of each row."""
    places_BT = torch.arange(mask_BT.shape[1], device=mask_BT.device).expand(mask_BT.shape)
    last_B1 = torch.where(mask_BT, places_BT, -1).amax(dim=1, keepdim=True)
    return mask_BT & (places_BT != last_B1)


def inject(given: Injection) -> tuple[Config, Parts]:
    inner = given.parts.loss

    def loss(recipe: Recipe, batch: Batch, counts: Counts) -> Loss:
        return inner(recipe, replace(batch, mask_BT=without_last_BT(batch.mask_BT)), counts)

    return given.config, replace(given.parts, loss=loss)


FAULT = Fault(
    name="end-token-untrained",
    broken="The mask of the loss ends one token early, just before the end token.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("one token short", 1.0, Harm.NONE),),
    roots=(),
    signs=("L001", "L002", "L004"),
    allowed=("H001", "H003", "R014", "O003", "L005"),
    fix="Let the mask end after the end token.",
    hidden=dict.fromkeys(("own", "trl", "verl", "chapter7"), "no log tells which tokens the loss counts"),
)
