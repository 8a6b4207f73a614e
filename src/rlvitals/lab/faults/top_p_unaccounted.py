"""The sampler leaves out the tail of its distribution, and the trainer scores as if it had not."""

from __future__ import annotations

from dataclasses import replace

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.rollout import Sampler
from rlvitals.grpo.score import Policy
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.samplers import OwnSettings


def inject(given: Injection) -> tuple[Config, Parts]:
    def sampler(policy: Policy, tokenizer: object, config: Config) -> Sampler:
        return OwnSettings(policy, tokenizer, top_p=given.value)

    return given.config, replace(given.parts, sampler=sampler)


FAULT = Fault(
    name="top-p-unaccounted",
    broken="The sampler draws from the most likely tokens alone; the trainer takes the whole vocabulary.",
    place=Place.SAMPLER,
    inject=inject,
    strengths=(Strength("top-p 0.7", 0.7),),
    roots=("O001", "O007", "C008"),
    signs=("Y001", "Y002"),
    allowed=("Y003", "O002", "S001", "E001", "H001", "H002", "H003", "R010", "K001", "U006"),
    hidden={"chapter7": "no statistic of sampler and trainer is logged"},
    fix="Sample with top-p 1, or keep the mask of what could be drawn and score under it (--recipe ch7-keep-mask).",
)
