"""The sampler holds its weights in bfloat16: every mixed-precision setup, and no fault."""

from __future__ import annotations

from dataclasses import replace

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.rollout import Sampler
from rlvitals.grpo.score import Policy
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength
from rlvitals.lab.faults.samplers import OwnWeights, to_bfloat16


def inject(given: Injection) -> tuple[Config, Parts]:
    def sampler(policy: Policy, tokenizer: object, config: Config) -> Sampler:
        return OwnWeights(policy, tokenizer, to_bfloat16)

    return given.config, replace(given.parts, sampler=sampler)


FAULT = Fault(
    name="sampler-bfloat16",
    broken="The sampler's weights are rounded to bfloat16, the trainer's are not.",
    place=Place.SAMPLER,
    inject=inject,
    strengths=(Strength("bfloat16", 16.0, Harm.NONE),),
    roots=("Y002",),
    fix="Nothing to mend: watch the gap of the log-probabilities.",
)
