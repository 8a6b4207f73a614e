"""A KL coefficient that holds the policy where it started."""

from __future__ import annotations

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.common import setting


def inject(given: Injection) -> tuple[Config, Parts]:
    return setting(given, kl_coef=given.value)


FAULT = Fault(
    name="kl-coefficient-huge",
    broken="The penalty outweighs the reward, so the policy stays at the reference.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("coefficient 20", 20.0),),
    roots=("K002",),
    allowed=("R010", "U002", "U008"),
    hidden={"chapter7": "no divergence to the reference is logged"},
    fix="Take the coefficient down to 0.04 or 0.",
)
