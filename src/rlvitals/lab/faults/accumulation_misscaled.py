"""Micro-batches are averaged each on its own and then added up: the gradient grows with their number."""

from __future__ import annotations

from dataclasses import replace

from rlvitals.grpo.aggregation import Counts
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.recipes import Batch, Loss, Recipe
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength


def inject(given: Injection) -> tuple[Config, Parts]:
    inner = given.parts.loss

    def loss(recipe: Recipe, batch: Batch, counts: Counts) -> Loss:
        return inner(recipe, batch, Counts.of(batch.mask_BT, counts.max_tokens))

    return given.config, replace(given.parts, loss=loss)


FAULT = Fault(
    name="accumulation-misscaled",
    broken="Each micro-batch is divided by its own counts instead of those of the step.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("micro-batches of 256 tokens", 256.0, Harm.NONE),),
    roots=(),
    allowed=("U002", "U010", "K001"),
    settings={"micro_tokens": 256},
    fix="Divide by the counts of the whole step.",
    hidden=dict.fromkeys(
        ("own", "trl", "verl", "chapter7"),
        "a gradient larger by a constant looks like another recipe, and clipping and AdamW take it back",
    ),
)
