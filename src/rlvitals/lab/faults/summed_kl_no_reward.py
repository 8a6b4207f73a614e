"""Chapter 7's summed k1 as a loss, with a reward that is always 0: noise destroys the policy."""

from __future__ import annotations

from dataclasses import replace

from rlvitals.env import Item, Step, VerifierStatus
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.common import answering, scored


def inject(given: Injection) -> tuple[Config, Parts]:
    def answer(item: Item, text: str, step: Step, now: int) -> Step:
        return scored(step, 0.0, status=VerifierStatus.WRONG, raw="")

    config, parts = answering(given, answer)
    return replace(config, recipe="ch7-kl", kl_coef=given.value), parts


FAULT = Fault(
    name="summed-kl-no-reward",
    broken="The KL term is k1 summed over the answer, whose gradient has no mean, and no reward holds against it.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("coefficient 0.1", 0.1),),
    roots=("K004",),
    signs=("R001", "R021", "T001", "K001"),
    allowed=("S001", "E001", "E002", "E003", "E004", "L001", "L002", "L003", "L004", "H001", "H002", "H003", "U002",
             "U003", "O002", "O003", "R010", "R013", "R004", "S005", "U010", "R015"),
    settings={"recipe": "ch7-kl-k3", "dead_steps": 0},
    fix="Take an estimator with the right gradient in the loss: --recipe ch7-kl-ratio-k3. Then the reward.",
)  # fmt: skip
