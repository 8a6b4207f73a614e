"""The sampler holds its weights in a few bits."""

from __future__ import annotations

from dataclasses import replace

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.rollout import Sampler
from rlvitals.grpo.score import Policy
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength
from rlvitals.lab.faults.samplers import OwnWeights, to_bits


def inject(given: Injection) -> tuple[Config, Parts]:
    def sampler(policy: Policy, tokenizer: object, config: Config) -> Sampler:
        return OwnWeights(policy, tokenizer, to_bits(int(given.value)))

    return given.config, replace(given.parts, sampler=sampler)


FAULT = Fault(
    name="sampler-quantised",
    broken="The sampler's matrices are rounded to few bits, and nothing corrects for it.",
    place=Place.SAMPLER,
    inject=inject,
    strengths=(Strength("4 bits", 4.0, Harm.MILD), Strength("3 bits", 3.0)),
    roots=("Y002",),
    signs=("Y001", "Y003", "O001"),
    allowed=("U006", "Y007", "E002", "E004", "R010", "S001", "H001", "H003", "H002", "R014", "K001", "U002", "O002"),
    hidden={"chapter7": "no statistic of sampler and trainer is logged"},
    fix="Sample in the precision that is trained, or correct with truncated importance weights.",
)
