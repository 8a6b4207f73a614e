"""The entropy bonus with the wrong sign: entropy falls by itself, without any other fault."""

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
        return inner(replace(recipe, entropy_coef=-given.value), batch, counts)

    return given.config, replace(given.parts, loss=loss)


FAULT = Fault(
    name="entropy-bonus-sign",
    broken="The entropy bonus is added to the loss instead of subtracted: uncertainty costs.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("coefficient 0.3", 0.3, Harm.MILD), Strength("coefficient 1", 1.0)),
    roots=(),
    signs=("E001", "O002"),
    allowed=("S001", "K001", "R002", "R014", "R010", "H001", "H002", "H003", "L003", "R009"),
    hidden=dict.fromkeys(
        ("trl", "verl", "chapter7"),
        "copies among rollouts are not logged, and entropy falls early on as in a run that learns fast",
    ),
    fix="Subtract the bonus from the loss.",
)
