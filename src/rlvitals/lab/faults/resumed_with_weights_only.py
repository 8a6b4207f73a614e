"""A restart from the weights alone: the optimizer forgets, and the policy becomes its own reference."""

from __future__ import annotations

from dataclasses import replace

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.recipes import Recipe
from rlvitals.grpo.reference import Reference
from rlvitals.grpo.score import Policy
from rlvitals.grpo.update import LossOf, StepData, Trainer, UpdateStats
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength


def inject(given: Injection) -> tuple[Config, Parts]:
    inner, new_reference = given.parts.update, given.parts.reference
    kept: list[Reference] = []

    def reference(policy: Policy, *, held: bool = True) -> Reference:
        kept[:] = [new_reference(policy, held=held)]
        return kept[0]

    def update(trainer: Trainer, recipe: Recipe, data: StepData, step: int, loss_of: LossOf) -> UpdateStats:
        stats = inner(trainer, recipe, data, step, loss_of)
        if step + 1 == given.start:
            trainer.optimizer.state.clear()
            trainer.updates = 0
            kept[0].reset(step)
        return stats

    return given.config, replace(given.parts, reference=reference, update=update)


FAULT = Fault(
    name="resumed-with-weights-only",
    broken="The run goes on from weights alone: optimizer state, warm-up and reference start anew.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("once", 1.0, Harm.NONE),),
    roots=("K005",),
    allowed=("K003", "K001", "U002", "D010"),
    invariant=True,
    start=60,
    settings={"warmup_steps": 10},
    fix="Save and load optimizer, scheduler, random state and reference with the weights.",
    hidden={
        "chapter7": "neither divergence, learning rate nor gradient norm is logged",
    },
)
