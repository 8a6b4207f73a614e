"""Finds the faults and healthy runs that were asked for, the lab's own by name and a user's by module and name."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from rlvitals.errors import InputError, Problem
from rlvitals.lab.fault import Fault, Healthy

ALL, NONE = "all", "none"
MAX_SEEDS = 10_000  # of one call (convention)
Subject = Fault | Healthy


def subject_of(name: str, source: str, *, healthy: bool) -> Subject:
    """Return one fault or healthy run: the lab's own, or the one that "module:NAME" names. Raises InputError."""
    if source:
        return _load(source)
    return choose([name], healthy=healthy)[0]


def choose(names: Sequence[str], *, healthy: bool) -> list[Subject]:
    """Return what the names mean, "all" or "none" included, in the order of the lab.

    Raises InputError with every unknown name.
    """
    from rlvitals.lab.faults import FAULTS
    from rlvitals.lab.healthy import HEALTHY

    known: dict[str, Subject] = {s.name: s for s in (HEALTHY if healthy else FAULTS)}
    wanted = [n for n in names if n not in (ALL, NONE)]
    where = "--healthy" if healthy else "--faults"
    problems = []
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Nearest: {near[0]}" if near else "List them: rlvitals lab list"
            problems.append(Problem("no such run in the lab", where, repr(name), "a name, all or none", hint))
    if problems:
        raise InputError(*problems)
    return [s for s in known.values() if ALL in names or s.name in wanted]


def seeds_of(text: str) -> tuple[int, ...]:
    """Return the seeds of "5" (the first five), "100-104" or "0,3,7". Raises InputError."""
    wrong = InputError(Problem("not seeds", "--seeds", repr(text[:80]), "a number of seeds, a range or a list: 5, "
                               "100-104 or 0,3,7"))  # fmt: skip
    if re.fullmatch(r"\d{1,6}", text):
        found = range(int(text))
    elif span := re.fullmatch(r"(\d{1,9})-(\d{1,9})", text):
        found = range(int(span[1]), int(span[2]) + 1)
    elif re.fullmatch(r"\d{1,9}(,\d{1,9})+,?|\d{1,9},", text):
        return tuple(dict.fromkeys(int(part) for part in text.split(",") if part))
    else:
        raise wrong
    if not 0 < len(found) <= MAX_SEEDS:
        raise wrong
    return tuple(found)


def own_faults(sources: Sequence[str]) -> list[tuple[Subject, str]]:
    """Return the user's faults with their sources. Raises InputError with every one that cannot be used."""
    problems: list[Problem] = []
    found: list[tuple[Subject, str]] = []
    for source in sources:
        try:
            found.append((_load(source), source))
        except InputError as error:
            problems.extend(error.problems)
    if problems:
        raise InputError(*problems)
    return found


def _load(source: str) -> Subject:
    place, _, name = source.rpartition(":")
    expected = "module:NAME or path/to/file.py:NAME of a rlvitals.lab.fault.Fault"
    if not place or not name:
        raise InputError(Problem("no such fault", "--fault", repr(source), expected))
    try:
        found = getattr(_module(place), name)
    except Exception as error:  # the user's own code may fail in any way
        said = f"{type(error).__name__}: {error}"[:300]
        raise InputError(Problem("the fault cannot be loaded", f"--fault {source}", said, expected)) from error
    if not isinstance(found, Fault | Healthy):
        raise InputError(Problem("this is no fault", f"--fault {source}", f"a {type(found).__name__}", expected))
    return found


def _module(place: str) -> ModuleType:
    """Import a module by name, or a file by its path, each once."""
    if not place.endswith(".py"):
        if (here := str(Path.cwd())) not in sys.path:
            sys.path.insert(0, here)  # as `python -m` would: a user's module lies where the command is called
        return importlib.import_module(place)
    path = Path(place).resolve()
    alias = f"rlvitals_lab_{re.sub(r'[^A-Za-z0-9]', '_', str(path))}"
    if alias in sys.modules:
        return sys.modules[alias]
    spec = importlib.util.spec_from_file_location(alias, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(place)
    module = importlib.util.module_from_spec(spec)
    sys.modules[alias] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[alias]
        raise
    return module
