"""The sampler draws at another temperature than the trainer believes."""

from __future__ import annotations

from dataclasses import replace

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.rollout import Sampler
from rlvitals.grpo.score import Policy
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength
from rlvitals.lab.faults.samplers import OwnSettings


def inject(given: Injection) -> tuple[Config, Parts]:
    def sampler(policy: Policy, tokenizer: object, config: Config) -> Sampler:
        return OwnSettings(policy, tokenizer, temperature=given.value)

    return given.config, replace(given.parts, sampler=sampler)


FAULT = Fault(
    name="sampler-temperature-off",
    broken="The sampler divides its logits by a temperature that the trainer knows nothing of.",
    place=Place.SAMPLER,
    inject=inject,
    strengths=(
        Strength("temperature 2", 2.0),
        Strength("temperature 1.5", 1.5, Harm.NONE),
        Strength("temperature 0.6", 0.6, Harm.MILD),
    ),
    roots=("O001", "O007", "C007"),
    signs=("Y001", "Y002"),
    allowed=("Y003", "E002", "E003", "E004", "K001", "H001", "H002", "H003", "R002", "R014", "S001", "S009", "R010",
             "O002", "L001", "L002", "U002", "U003", "U006", "Y007", "R004"),
    hidden=dict.fromkeys(
        ("trl", "verl", "chapter7"),
        "the surprisal of the sampled tokens is not logged: a gap of the log-probabilities has many causes",
    ),
    invariant=True,
    fix="Let one place set the temperature of sampler and trainer, and compare their log-probabilities.",
)  # fmt: skip
