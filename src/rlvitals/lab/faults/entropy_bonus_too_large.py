"""An entropy bonus that outweighs the reward."""

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
        return inner(replace(recipe, entropy_coef=given.value), batch, counts)

    return given.config, replace(given.parts, loss=loss)


FAULT = Fault(
    name="entropy-bonus-too-large",
    broken="The entropy bonus is larger than the policy loss: noise pays best.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("coefficient 0.25", 0.25),),
    roots=("E002", "E003", "E004"),
    allowed=("K001", "R002", "R014", "R001", "R010", "S001", "H001", "H002", "H003", "L001", "L002", "R004", "L004",
             "O003", "U002", "U003"),
    fix="Take the coefficient of the bonus down, or leave it out.",
)  # fmt: skip
