"""A log of means over ten steps, without spread and without held-out scores, put on top of another fault."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts, Row
from rlvitals.lab.fault import Fault, Harm, Inject, Injection, Place, Strength

EVERY = 10  # steps per row of the log
TOO_FEW = "a dozen points, without spread and held-out score, are too few to judge from"
KEPT = ("loss", "reward_mean", "length_mean", "learning_rate", "grad_norm", "kl_ref", "entropy", "clip_frac",
        "logprob_gap_mean", "extra/optimizer_steps", "extra/tries")  # fmt: skip


class Means:
    """Logs the mean of what is kept, once per EVERY steps; the rows between hold nothing."""

    def __init__(self) -> None:
        self._rows: list[Mapping[str, float]] = []

    def __call__(self, step: int, row: Row) -> Row:
        self._rows.append(row)
        if step % EVERY:
            return {}
        rows, self._rows = self._rows, []
        out = {}
        for name in KEPT:
            values = [r[name] for r in rows if name in r]
            if values:
                out[name] = math.fsum(values) / len(values)
        return out


def inject(given: Injection) -> tuple[Config, Parts]:
    config = replace(given.config, eval_every=0, dead_steps=0)
    return config, replace(given.parts, record=Means())


def on_top_of(fault: Fault, strength: Strength) -> Fault:
    """Return the same fault, seen through a lossy log."""
    inner: Inject = fault.inject

    def both(given: Injection) -> tuple[Config, Parts]:
        config, parts = inner(given)
        return inject(replace(given, config=config, parts=parts))

    return Fault(
        name=f"lossy-log-{fault.name}",
        broken=f"{fault.broken} The log keeps means over ten steps alone.",
        place=Place.LOGGING,
        inject=both,
        strengths=(strength,),
        roots=fault.roots,
        signs=fault.signs,
        fix=f"{fault.fix} Log every step, with spread and held-out scores.",
        start=fault.start,
        settings=fault.settings,
        allowed=("D003", *fault.allowed),
        invariant=False,
        hidden=dict.fromkeys(("own", "trl", "verl", "chapter7"), f"{TOO_FEW}: rlvitals says so, and what to log"),
        steps=fault.steps,
    )


FAULT = Fault(
    name="lossy-log",
    broken="The log keeps means over ten steps, no spread and no held-out score. Nothing else is wrong.",
    place=Place.LOGGING,
    inject=inject,
    strengths=(Strength("every 10 steps", float(EVERY), Harm.NONE),),
    roots=(),
    allowed=("D003",),
    fix="Log every step, with spread and held-out scores.",
    hidden=dict.fromkeys(("own", "trl", "verl", "chapter7"), "a run that is well needs no more"),
)
