"""What must be true of a user's fault before anything is trained with it, and of what its injection returns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from rlvitals.errors import Problem
from rlvitals.lab.fault import Fault, Healthy, Strength

if TYPE_CHECKING:
    from rlvitals.grpo.config import Config
    from rlvitals.grpo.parts import Parts

OF_THE_CALL = {"seed": "--seeds", "steps": "--steps"}
"""Settings that an option of the call gives: two places for one number would contradict each other."""


def problems_of(subject: Fault | Healthy, at: str) -> list[Problem]:
    """Return everything that keeps a fault or a healthy run from being used; `at` is where it came from."""
    return [
        *_settings(subject, at),
        *(_of_fault(subject, at) if isinstance(subject, Fault) else ()),
    ]


def _of_fault(fault: Fault, at: str) -> Iterator[Problem]:
    from rlvitals.checks import CHECKS

    known = {c.id for c in CHECKS}
    if not callable(fault.inject):
        yield Problem("inject is no function", at, f"a {type(fault.inject).__name__}", "a function of an Injection")
    strengths = fault.strengths if isinstance(fault.strengths, tuple | list) else ()
    if not strengths or not all(isinstance(s, Strength) for s in strengths):
        yield Problem("the fault has no strength to be run at", at, f"strengths={fault.strengths!r}"[:120],
                      'at least one: strengths=(Strength("times 100", 100.0),)')  # fmt: skip
        return
    names = [s.name for s in strengths]
    if len(set(names)) < len(names):
        yield Problem("two strengths have one name", at, ", ".join(names)[:200], "a name of its own for each")
    if not all(isinstance(s.value, int | float) and math.isfinite(s.value) for s in strengths):
        yield Problem(
            "a strength has no value", at, str([s.value for s in strengths])[:120], "a finite number for each"
        )
    for what, ids in (("roots", fault.roots), ("signs", fault.signs), ("allowed", fault.allowed)):
        wrong = [str(i) for i in ids if i not in known]
        if isinstance(ids, str) or wrong:
            yield Problem(f"{what} are no checks", at, repr(ids) if isinstance(ids, str) else ", ".join(wrong),
                          f'ids of checks: {what}=("R001", "S001")', "List them: rlvitals explain")  # fmt: skip
    if not isinstance(fault.start, int) or fault.start < 1:
        yield Problem("the first broken step is none", at, f"start={fault.start!r}", "1 or more")


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
            return config, parts
        case tuple():
            found = f"({', '.join(type(g).__name__ for g in given)})"
        case _:
            found = f"a {type(given).__name__}"
    return Problem("inject returned something else than a setup", name, found, expected)
