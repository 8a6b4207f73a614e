"""What must be true of a user's fault before anything is trained with it, and of what its injection returns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from rlvitals.errors import Problem
from rlvitals.lab.fault import Fault, Healthy, Strength
from rlvitals.lab.fields import kinds_wrong

if TYPE_CHECKING:
    from rlvitals.grpo.config import Config
    from rlvitals.grpo.parts import Parts

OF_THE_CALL = {"seed": "--seeds", "steps": "--steps"}
"""Settings that an option of the call gives: two places for one number would contradict each other."""


def problems_of(subject: Fault | Healthy, at: str) -> list[Problem]:
    """Return everything that keeps a fault or a healthy run from being used; `at` is where it came from."""
    strengths = subject.strengths if isinstance(subject, Fault) else ()
    each = [s for s in strengths if isinstance(s, Strength)] if isinstance(strengths, tuple | list) else []
    wrong = [*kinds_wrong(subject, at), *(p for s in each for p in kinds_wrong(s, f"{at}, strength {s.name!r}"))]
    if wrong:
        return wrong
    return [
        *_settings(subject, at),
        *(_of_fault(subject, at) if isinstance(subject, Fault) else _checks(at, watch=subject.watch)),
    ]


def _of_fault(fault: Fault, at: str) -> Iterator[Problem]:
    strengths = fault.strengths if isinstance(fault.strengths, tuple | list) else ()
    if not strengths or not all(isinstance(s, Strength) for s in strengths):
        yield Problem("the fault has no strength to be run at", at, f"strengths={fault.strengths!r}"[:120],
                      'at least one: strengths=(Strength("times 100", 100.0),)')  # fmt: skip
        return
    names = [s.name for s in strengths]
    if len(set(names)) < len(names):
        yield Problem("two strengths have one name", at, ", ".join(names)[:200], "a name of its own for each")
    if not all(not math.isnan(s.value) for s in strengths):
        yield Problem("a strength has no value", at, str([s.value for s in strengths])[:120], "a number for each")
    yield from _checks(at, roots=fault.roots, signs=fault.signs, allowed=fault.allowed)
    if 0 < fault.steps < fault.start:
        yield Problem("the run ends before the fault begins", at, f"steps={fault.steps}, start={fault.start}",
                      "more steps than start")  # fmt: skip


def _checks(at: str, **given: Sequence[str]) -> Iterator[Problem]:
    from rlvitals.checks import CHECKS

    known = {c.id for c in CHECKS}
    for what, ids in given.items():
        if wrong := [i for i in ids if i not in known]:
            yield Problem(f"{what} are no checks", at, ", ".join(wrong),
                          f'ids of checks: {what}=("R001", "S001")', "List them: rlvitals explain")  # fmt: skip


def _settings(subject: Fault | Healthy, at: str) -> Iterator[Problem]:
    from rlvitals.grpo.config import Config

    known = {f.name for f in fields(Config)} | {"recipe"}
    for name in subject.settings:
        if name in OF_THE_CALL:
            own = " or the field steps of the fault" if name == "steps" else ""
            yield Problem(f"settings hold {name}", at, f"{subject.settings[name]!r}", f"{OF_THE_CALL[name]}{own}")
        elif name not in known:
            yield Problem("no such setting", at, repr(name), "settings of rlvitals train: rlvitals train --help")


def injected_parts(given: Any, name: str) -> tuple[Config, Parts] | Problem:
    """Return what an injection gave where it can be trained, else what is wrong with it."""
    from rlvitals.grpo.config import Config
    from rlvitals.grpo.parts import Parts

    expected = "the pair (config, parts): return given.config, replace(given.parts, ...)"
    match given:
        case (Config() as config, Parts() as parts):
            wrong = [f.name for f in fields(Parts) if not callable(getattr(parts, f.name))]
            if not wrong:
                return config, parts
            found = f"parts whose {wrong[0]} is a {type(getattr(parts, wrong[0])).__name__}"
        case tuple():
            found = f"({', '.join(type(g).__name__ for g in given)})"
        case _:
            found = f"a {type(given).__name__}"
    return Problem("inject returned something else than a setup", name, found, expected)
