"""The old policy is refreshed too rarely: the ratio is not 1 in the first minibatch of a step."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import cast

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.recipes import Recipe
from rlvitals.grpo.score import Policy
from rlvitals.grpo.update import LossOf, StepData, Trainer, UpdateStats
from rlvitals.lab.fault import Fault, Injection, Place, Strength


def inject(given: Injection) -> tuple[Config, Parts]:
    every, inner, score = int(given.value), given.parts.update, given.parts.score
    held: list[Policy] = []

    def update(trainer: Trainer, recipe: Recipe, data: StepData, step: int, loss_of: LossOf) -> UpdateStats:
        policy = cast("Policy", trainer.policy)
        if not held or (step - 1) % every == 0:
            held[:] = [Policy(copy.deepcopy(policy.model), policy.dtype).eval()]
        old = score(held[0], data.packed, trainer.config.temperature, trainer.config.micro_tokens)
        return inner(trainer, recipe, replace(data, logp_old_BT=old.logp_BT), step, loss_of)

    return given.config, replace(given.parts, update=update)


FAULT = Fault(
    name="old-policy-stale",
    broken="The log-probabilities of the old policy come from weights of some steps ago.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("refreshed every 20 steps", 20.0),),
    roots=("U005",),
    signs=("U010",),
    allowed=("U003", "U002", "R010", "S001", "K001", "H003"),
    fix="Recompute the old log-probabilities from the weights at hand before the first minibatch.",
    hidden=dict.fromkeys(
        ("trl", "verl", "chapter7"), "the ratio of the first minibatch is not logged: the loss explodes, and no more"
    ),
    invariant=True,
)
