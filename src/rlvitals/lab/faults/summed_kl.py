"""Chapter 7's summed k1 as a loss, with the real reward."""

from __future__ import annotations

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength
from rlvitals.lab.faults.common import setting


def inject(given: Injection) -> tuple[Config, Parts]:
    return setting(given, recipe="ch7-kl", kl_coef=given.value)


FAULT = Fault(
    name="summed-kl",
    broken="The KL term is k1 summed over the answer: as a loss it restrains nothing and adds noise.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("coefficient 0.1", 0.1, Harm.MILD), Strength("coefficient 1", 1.0, Harm.MILD)),
    roots=("K004",),
    allowed=("K001", "R002", "R014", "S001", "E001", "E002", "E003", "E004", "L001", "L002", "L003", "L004", "H001",
             "H002", "H003", "U002", "U003", "O002", "O003", "R010", "R004", "U010"),
    settings={"recipe": "ch7-kl-k3"},
    hidden=dict.fromkeys(
        ("trl", "verl", "chapter7"), "neither the estimator of the KL term nor its value is logged"
    ),
    fix="Take an estimator with the right gradient in the loss: --recipe ch7-kl-ratio-k3.",
)  # fmt: skip
