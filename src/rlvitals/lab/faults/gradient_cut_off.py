"""The loss is detached from the weights: it is computed, logged, and moves nothing."""

from __future__ import annotations

from dataclasses import replace

from rlvitals.grpo.aggregation import Counts
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.recipes import Batch, Loss, Recipe
from rlvitals.lab.fault import Fault, Injection, Place, Strength


def inject(given: Injection) -> tuple[Config, Parts]:
    inner = given.parts.loss

    def loss(recipe: Recipe, batch: Batch, counts: Counts) -> Loss:
        made = inner(recipe, batch, counts)
        return replace(made, total=made.total.detach() + 0.0 * batch.logp_BT.sum())

    return given.config, replace(given.parts, loss=loss)


FAULT = Fault(
    name="gradient-cut-off",
    broken="No gradient of the loss reaches any weight.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("every weight", 1.0),),
    roots=("U001",),
    signs=("U008",),
    allowed=("R010", "U007", "K002"),
    fix="Find where the graph is cut (detach, no_grad, a frozen module), and check that the gradient norm is above 0.",
    invariant=True,
    hidden={"chapter7": "neither gradient norm nor learning rate is logged: a reward that stays level is all there is"},
)
