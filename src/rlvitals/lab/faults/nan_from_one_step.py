"""The loss is no number from one step on: nothing is learnt any more."""

from __future__ import annotations

from dataclasses import replace

from rlvitals.grpo.aggregation import Counts
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.recipes import Batch, Loss, Recipe
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.common import Clock


def inject(given: Injection) -> tuple[Config, Parts]:
    clock = Clock()
    inner = given.parts.loss

    def loss(recipe: Recipe, batch: Batch, counts: Counts) -> Loss:
        made = inner(recipe, batch, counts)
        if clock.step < given.start:
            return made
        nan = float("nan")
        return replace(made, total=made.total * nan, policy=made.policy * nan)

    return given.config, clock.ticking(replace(given.parts, loss=loss))


FAULT = Fault(
    name="nan-from-one-step",
    broken="From the start step on the loss is NaN, and every update is skipped.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("from step 60 on", 1.0, why="waste: no step from there on changes a weight"),),
    roots=("D001",),
    allowed=("U001", "U008", "R010", "U007"),
    start=60,
    fix="Find the first value that is not finite, and go back to the checkpoint before it.",
    invariant=True,
)
