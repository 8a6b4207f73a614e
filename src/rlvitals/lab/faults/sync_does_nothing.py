"""The push reports the new version and leaves the old weights in place."""

from __future__ import annotations

from dataclasses import replace

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.rollout import Sampler
from rlvitals.grpo.score import Policy
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.samplers import OwnWeights


def inject(given: Injection) -> tuple[Config, Parts]:
    def sampler(policy: Policy, tokenizer: object, config: Config) -> Sampler:
        return OwnWeights(policy, tokenizer, copies=False)

    return given.config, replace(given.parts, sampler=sampler)


FAULT = Fault(
    name="sync-does-nothing",
    broken="The sampler says that it has the new weights, and samples with those of the start.",
    place=Place.SYNC,
    inject=inject,
    strengths=(Strength("never", 1.0),),
    roots=("Y003", "Y001"),
    signs=("Y002",),
    allowed=("Y007", "U006", "E001", "E002", "E004", "K001", "H001", "H002", "H003", "R010", "R002", "R014", "S001",
             "U002", "U003", "O002", "L001", "L002", "L003", "L004", "Y006", "U010"),
    hidden={"chapter7": "no statistic of sampler and trainer is logged"},
    fix="Compare a checksum of the weights on both sides after each push.",
)  # fmt: skip
