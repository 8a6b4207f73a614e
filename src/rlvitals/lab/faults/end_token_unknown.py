"""The sampler does not know the token that ends an answer: every rollout runs into the budget."""

from __future__ import annotations

from dataclasses import replace

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.rollout import Sampler
from rlvitals.grpo.score import Policy
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength
from rlvitals.lab.faults.samplers import OwnSettings

NO_TOKEN = -1


def inject(given: Injection) -> tuple[Config, Parts]:
    def sampler(policy: Policy, tokenizer: object, config: Config) -> Sampler:
        return OwnSettings(policy, tokenizer, end_id=NO_TOKEN)

    return given.config, replace(given.parts, sampler=sampler)


FAULT = Fault(
    name="end-token-unknown",
    broken="The end token of the sampler is another one than the policy writes, so that nothing ever ends.",
    place=Place.SAMPLER,
    inject=inject,
    strengths=(Strength("never ends", 1.0, Harm.MILD, "waste: 2.2 times the tokens for the same score"),),
    roots=("L004", "L005"),
    signs=("L001", "L006"),
    allowed=("R001", "T001", "S001", "R010", "R013", "R004", "U007", "U008", "K002", "S005", "U009"),
    hidden={"chapter7": "neither truncation nor the largest length is logged"},
    fix="Give the sampler the end token of the chat template.",
)
