"""A learning rate that the policy does not survive."""

from __future__ import annotations

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.common import setting


def inject(given: Injection) -> tuple[Config, Parts]:
    return setting(given, lr=given.value)


FAULT = Fault(
    name="learning-rate-too-high",
    broken="The learning rate is ten times what the policy can take.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("3e-3", 3e-3), Strength("1e-3", 1e-3)),
    roots=("K001", "C010"),
    signs=("U002", "U003"),
    allowed=("R002", "R014", "R001", "S001", "E001", "E002", "E004", "H001", "H002", "H003", "O002", "L001", "L002",
             "L003", "R010", "R004", "L004", "O003", "U010", "R013"),
    hidden={"chapter7": "neither divergence, gradient norm nor clipping is logged"},
    fix="Go back to the checkpoint before the divergence rose, with a tenth of the learning rate.",
)  # fmt: skip
