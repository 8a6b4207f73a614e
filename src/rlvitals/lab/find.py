"""Finds the faults and healthy runs that were asked for, the lab's own by name and a user's by module and name."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from rlvitals.errors import InputError, Problem
from rlvitals.lab.crash import own_line, said_of
from rlvitals.lab.fault import Fault, Healthy
from rlvitals.lab.fields import explained
from rlvitals.lab.valid import problems_of

ALL, NONE = "all", "none"
LIST = "List them: rlvitals lab list"
OF_THE_LAB = "The lab's own by name: rlvitals lab list"
MAX_SEEDS = 10_000  # of one call (convention)
Subject = Fault | Healthy


def subject_of(name: str, source: str, *, healthy: bool, where: str = "") -> Subject:
    """Return one fault or healthy run: the lab's own, or the one that "module:NAME" names.

    `where` is the argument that an error speaks of. Raises InputError.
    """
    if source:
        return _load(source, where or "--fault")
    known, others = _known(healthy=healthy)
    if name not in known:
        raise InputError(_unknown(name, known, others, where or _option(healthy=healthy), healthy=healthy))
    return known[name]


def choose(names: Sequence[str], *, healthy: bool) -> list[Subject]:
    """Return what the names mean, "all" or "none" included, in the order of the lab.

    Raises InputError with every unknown name.
    """
    known, others = _known(healthy=healthy)
    wanted = [n for n in names if n not in (ALL, NONE)]
    where = _option(healthy=healthy)
    problems = [_unknown(n, known, others, where, healthy=healthy) for n in wanted if n not in known]
    if problems:
        raise InputError(*problems)
    return [s for s in known.values() if ALL in names or s.name in wanted]


def _known(*, healthy: bool) -> tuple[dict[str, Subject], dict[str, Subject]]:
    """Return by name what is asked for, and what the other option has."""
    from rlvitals.lab.faults import FAULTS
    from rlvitals.lab.healthy import HEALTHY

    faults: dict[str, Subject] = {s.name: s for s in FAULTS}
    runs: dict[str, Subject] = {s.name: s for s in HEALTHY}
    return (runs, faults) if healthy else (faults, runs)


def _option(*, healthy: bool) -> str:
    return "--healthy" if healthy else "--faults"


def _unknown(
    name: str, known: Mapping[str, Subject], others: Mapping[str, Subject], where: str, *, healthy: bool
) -> Problem:
    """Return what to say of a name that is none, in the words of the argument that it was given to."""
    kind, other = ("healthy run", "fault") if healthy else ("fault", "healthy run")
    expected = "the name of a " + kind + (", all or none" if where.startswith("--") else ", or module:NAME")
    hint = _near(name, known) + LIST
    if name in others:
        hint = f"It is a {other}: rlvitals lab run {_option(healthy=not healthy)} {name}"
    return Problem(f"no such {kind} in the lab", where, repr(name), expected, hint)


def _near(name: str, known: Iterable[str]) -> str:
    """Return "Nearest: x. " for the closest known name, "" when none is close."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"Nearest: {near[0]}. " if near else ""


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


def own_faults(sources: Sequence[str], where: str = "--fault") -> list[tuple[Subject, str]]:
    """Return the user's faults with their sources. Raises InputError with every one that cannot be used.

    `where` is the argument that they were given to.
    """
    problems: list[Problem] = []
    found: list[tuple[Subject, str]] = []
    for source in sources:
        try:
            found.append((_load(source, where), source))
        except InputError as error:
            problems.extend(error.problems)
    names = [subject.name for subject, _ in found]
    for name in dict.fromkeys(n for n in names if names.count(n) > 1):
        sources_of = ", ".join(source for subject, source in found if subject.name == name)
        problems.append(
            Problem("two faults have one name", where, f"{name!r}: {sources_of}", "a name of its own for each")
        )
    if problems:
        raise InputError(*problems)
    return found


def _load(source: str, where: str) -> Subject:
    place, _, name = source.rpartition(":")
    expected = "module:NAME or path/to/file.py:NAME of a rlvitals.lab.fault.Fault"
    if not place or not name:
        known, _ = _known(healthy=False)
        hint = f"It is a fault of the lab: rlvitals lab run --faults {source}" if source in known else ""
        hint = hint or _near(source, known) + OF_THE_LAB
        raise InputError(Problem("no such fault", where, repr(source), expected, hint))
    at = f"{where} {source}"
    try:
        module = _module(place)
        found = getattr(module, name, None)
    except Exception as error:  # the user's own code may fail in any way
        raise InputError(_unloadable(error, at, expected)) from error
    own = [n for n, value in vars(module).items() if isinstance(value, Fault | Healthy)]
    if found is None:
        has = f"the faults {', '.join(own[:12])}" if own else "no fault in it"
        raise InputError(Problem(f"the module has no {name}", at, has, expected, _near(name, own) + OF_THE_LAB))
    if not isinstance(found, Fault | Healthy):
        hint = _near(name, own) + OF_THE_LAB
        raise InputError(Problem("this is no fault", at, f"a {type(found).__name__}", expected, hint))
    if problems := [*_taken(found, at), *problems_of(found, at)]:
        raise InputError(*problems)
    return found


def _unloadable(error: Exception, at: str, expected: str) -> Problem:
    """Return why a user's module cannot be imported, with the line of it that fails."""
    line, (lacks, write) = own_line(error), explained(error)
    where = f"{at}, {line}" if line else at
    if lacks:
        return Problem(lacks, where, expected=write)
    return Problem("the fault cannot be loaded", where, said_of(error), "" if line else expected, OF_THE_LAB)


def _taken(found: Subject, at: str) -> list[Problem]:
    """Refuse a name of the lab's own: results are found by it, and would be scored by the lab's description."""
    mine, others = _known(healthy=isinstance(found, Healthy))
    known = mine.get(found.name) or others.get(found.name)
    if known is None or known is found:
        return []
    return [Problem("the lab has a fault or healthy run of this name", at, repr(found.name), "a name of its own")]


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
