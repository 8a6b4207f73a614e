"""The sampler serves the base model: the adapter that is trained never reaches it."""

from __future__ import annotations

from dataclasses import replace

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.samplers import WithoutAdapter


def inject(given: Injection) -> tuple[Config, Parts]:
    return given.config, replace(given.parts, sampler=WithoutAdapter)


FAULT = Fault(
    name="adapter-not-merged",
    broken="Rollouts come from the base weights; the adapter is trained on them and is never sampled from.",
    place=Place.SYNC,
    inject=inject,
    strengths=(Strength("never", 1.0),),
    roots=("Y003", "Y001"),
    signs=("Y002",),
    allowed=("Y007", "U006", "E001", "E002", "E004", "K001", "H001", "H002", "H003", "R010", "R002", "R014", "S001",
             "U002", "U003", "O002", "L001", "L002", "L003", "L004", "Y006", "U010"),
    settings={"lora_rank": 8, "lr": 3e-3},
    hidden={"chapter7": "no statistic of sampler and trainer is logged"},
    fix="Merge the adapter into what is pushed, or load it in the sampler.",
)  # fmt: skip
