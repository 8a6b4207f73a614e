"""The text that names a task, `name:key=value,key=value`, and its typed options."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rlvitals.errors import InputError, Problem

YES = frozenset({"1", "yes", "true", "on"})
NO = frozenset({"0", "no", "false", "off"})


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a task: its name, what it says, and what it is when left out."""

    name: str
    meaning: str
    default: str = ""


@dataclass(frozen=True)
class Options:
    """The options given for a task, over their defaults. Getters raise InputError for a value of another type."""

    task: str
    values: Mapping[str, str]

    def text(self, name: str) -> str:
        return self.values[name]

    def words(self, name: str) -> tuple[str, ...]:
        """Return a list written with `+` between its entries."""
        return tuple(w for w in self.values[name].split("+") if w)

    def number(self, name: str) -> float:
        try:
            return float(self.values[name])
        except ValueError:
            raise InputError(self._wrong(name, "a number")) from None

    def whole(self, name: str) -> int:
        try:
            return int(self.values[name])
        except ValueError:
            raise InputError(self._wrong(name, "a whole number")) from None

    def flag(self, name: str) -> bool:
        value = self.values[name].lower()
        if value not in YES | NO:
            raise InputError(self._wrong(name, "yes or no"))
        return value in YES

    def one_of(self, name: str, choices: Iterable[str]) -> str:
        known = tuple(choices)
        if self.values[name] not in known:
            raise InputError(self._wrong(name, ", ".join(known)))
        return self.values[name]

    def _wrong(self, name: str, expected: str) -> Problem:
        return Problem("a task option has the wrong form", f"{self.task}: {name}", repr(self.values[name]), expected)


def name_of(spec: str) -> str:
    """Return the task's name in `name:key=value`."""
    return spec.partition(":")[0].strip()


def given(spec: str, option: str) -> str:
    """Return the value of one option as it stands in a spec, "" where it is left out."""
    pieces = (p.strip().partition("=") for p in spec.partition(":")[2].split(","))
    return next((value for key, _, value in pieces if key == option), "")


def parse(spec: str, known: tuple[Option, ...]) -> Options:
    """Return the options of a spec. InputError names every unknown key, with the nearest known one, at once."""
    name, _, rest = spec.partition(":")
    values = {o.name: o.default for o in known}
    problems: list[Problem] = []
    for piece in filter(None, (p.strip() for p in rest.split(","))):
        key, equals, value = piece.partition("=")
        if not equals:
            problems.append(Problem("a task option has no value", name, repr(piece), "key=value"))
        elif key not in values:
            near = difflib.get_close_matches(key, values, n=1)
            hint = f"Nearest: {near[0]}" if near else f"Known: {', '.join(values)}"
            problems.append(Problem("unknown task option", name, repr(key), "", hint))
        else:
            values[key] = value
    if problems:
        raise InputError(*problems)
    return Options(name, values)
