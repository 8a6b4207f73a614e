"""The sampler gets the new weights rarely, or never."""

from __future__ import annotations

import math
from dataclasses import replace

from torch import nn

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.rollout import Sampler
from rlvitals.grpo.score import Policy
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength
from rlvitals.lab.faults.samplers import OwnWeights


def inject(given: Injection) -> tuple[Config, Parts]:
    inner = given.parts.sync

    def sampler(policy: Policy, tokenizer: object, config: Config) -> Sampler:
        return OwnWeights(policy, tokenizer)

    def sync(sampler: Sampler, model: nn.Module, version: int, step: int) -> None:
        if step == 0 or (math.isfinite(given.value) and step % given.value == 0):
            inner(sampler, model, version, step)

    return given.config, replace(given.parts, sampler=sampler, sync=sync)


FAULT = Fault(
    name="sampler-stale",
    broken="The weights reach the sampler every so many steps, and nothing corrects for the lag.",
    place=Place.SYNC,
    inject=inject,
    strengths=(Strength("every 16 steps", 16.0, Harm.MILD), Strength("never", math.inf)),
    roots=("Y004", "Y003", "Y001"),
    signs=("Y002",),
    allowed=("Y007", "U006", "E001", "E002", "E004", "K001", "H001", "H002", "H003", "R010", "R002", "R014", "S001",
             "U002", "U003", "O002", "L001", "L002", "L003", "L004", "R004", "Y006", "U010"),
    hidden={"chapter7": "no statistic of sampler and trainer is logged"},
    fix="Push the weights after every step, and log the version that sampled each rollout.",
    invariant=True,
)  # fmt: skip
