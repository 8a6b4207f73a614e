"""The reference is not the policy of the start: the penalty pulls to another model."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.reference import Reference
from rlvitals.grpo.score import Policy
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength


def shaken(policy: Policy, share: float) -> Policy:
    """Return a copy whose weights are off by a share of their own spread."""
    twin = Policy(copy.deepcopy(policy.model), policy.dtype)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in twin.parameters():
            if weight.dim() > 1:
                weight.add_(share * weight.std() * torch.randn(weight.shape, generator=generator))
    return twin


def inject(given: Injection) -> tuple[Config, Parts]:
    inner = given.parts.reference

    def reference(policy: Policy, *, held: bool = True) -> Reference:
        return inner(shaken(policy, given.value), held=held)

    return given.config, replace(given.parts, reference=reference)


FAULT = Fault(
    name="reference-other",
    broken="The reference was loaded from another checkpoint than the policy.",
    place=Place.TRAINER,
    inject=inject,
    strengths=(Strength("weights off by a fifth of their spread", 0.2, Harm.NONE),),
    roots=("K003",),
    allowed=("K001", "R010", "K004"),
    fix="Load reference and policy from the same checkpoint: the divergence is 0 before the first update.",
    invariant=True,
    hidden={
        "trl": "whether an adapter was trained before, which gives the same, is not logged: watch is right",
        "verl": "the divergence is a mean over the updates of a step, the first of which has changed the policy",
        "chapter7": "no divergence to the reference is logged",
    },
)
