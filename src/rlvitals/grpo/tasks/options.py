"""The text that names a task, `name:key=value,key=value`, and its typed options."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rlvitals.errors import InputError, Problem

MAX_ITEMS, MAX_TOKENS = 10**7, 10**7  # of a task and of a completion (convention: far above any published run)
MIN_SECONDS, MAX_SECONDS = 0.01, 3600.0  # of one verdict (convention: less ends every answer, more hangs the run)
YES = frozenset({"1", "yes", "true", "on"})
NO = frozenset({"0", "no", "false", "off"})


class Kind(StrEnum):
    """What the text of an option must be, as errors say it."""

    TEXT = "text"
    WHOLE = "a whole number"
    NUMBER = "a number"
    FLAG = "yes or no"


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a task: its name, what it says, and what it is when left out.

    Attributes:
        kind: what its text must be; low, high: smallest and largest value of a number.
        choices: the texts that it may be, an empty one as the default says; of a list those of each entry.
        each: what one entry of a list joined by `+` is called, "" for what is no list; a list has one or more entries,
            none twice.
        needed: what to type where it is left out, "" where it may be.
    """

    name: str
    meaning: str
    default: str = ""
    kind: Kind = Kind.TEXT
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    each: str = ""
    needed: str = ""


@dataclass(frozen=True)
class Options:
    """The options given for a task, over their defaults; `parse` has checked every one."""

    task: str
    values: Mapping[str, str]

    def text(self, name: str) -> str:
        return self.values[name]

    def words(self, name: str) -> tuple[str, ...]:
        """Return a list written with `+` between its entries."""
        return _entries(self.values[name])

    def number(self, name: str) -> float:
        return float(self.values[name])

    def whole(self, name: str) -> int:
        return int(self.values[name])

    def flag(self, name: str) -> bool:
        return self.values[name].lower() in YES


def name_of(spec: str) -> str:
    """Return the task's name in `name:key=value`."""
    return spec.partition(":")[0].strip()


def given(spec: str, option: str) -> str:
    """Return the value of one option as it stands in a spec, "" where it is left out. InputError if it comes twice."""
    found = [(key, value) for key, _, value in _pieces(spec) if key == option]
    problems = twice(name_of(spec), found)
    if problems:
        raise InputError(*problems)
    return found[0][1] if found else ""


def twice(where: str, pairs: Sequence[tuple[str, str]]) -> list[Problem]:
    """Return which (key, value) options are given more than once, with all values: which one is meant is unknown."""
    values: dict[str, list[str]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return [
        Problem(f"{key} is given {'twice' if len(v) == 2 else f'{len(v)} times'}", where, " and ".join(map(repr, v)),
                "one of them")
        for key, v in values.items()
        if len(v) > 1
    ]  # fmt: skip


def _pieces(spec: str) -> list[tuple[str, str, str]]:
    return [p.strip().partition("=") for p in spec.partition(":")[2].split(",") if p.strip()]


def parse(spec: str, known: tuple[Option, ...]) -> Options:
    """Return the options of a spec. InputError names every unknown key and every value that is none, at once."""
    name = spec.partition(":")[0]
    values = {o.name: o.default for o in known}
    problems = twice(name, [(key, value) for key, equals, value in _pieces(spec) if equals])
    for key, equals, value in _pieces(spec):
        if not equals:
            problems.append(Problem("a task option has no value", name, repr(key), "key=value"))
        elif key not in values:
            near = difflib.get_close_matches(key, values, n=1)
            hint = f"Nearest: {near[0]}" if near else f"Known: {', '.join(values)}"
            problems.append(Problem("unknown task option", name, repr(key), "", hint))
        else:
            values[key] = value
    for option in known:
        problems += _wrong(option, values[option.name], f"{name}: {option.name}")
    if problems:
        raise InputError(*problems)
    return Options(name, values)


def _entries(text: str) -> tuple[str, ...]:
    return tuple(w for w in text.split("+") if w)


def _wrong(option: Option, text: str, where: str) -> list[Problem]:
    """Return what is wrong with the text of one option."""
    if option.needed and not text:
        return [Problem(f"no {option.name} named", where, hint=option.needed)]
    if option.each:
        return _wrong_entries(option, _entries(text), where)
    if option.choices and text != option.default and text not in option.choices:
        return [Problem("a task option has the wrong form", where, repr(text), ", ".join(option.choices))]
    if option.kind is Kind.FLAG and text.lower() not in YES | NO:
        return [Problem("a task option has the wrong form", where, repr(text), option.kind.value)]
    if option.kind in (Kind.WHOLE, Kind.NUMBER):
        return _wrong_number(option, text, where)
    return []


def _wrong_entries(option: Option, entries: tuple[str, ...], where: str) -> list[Problem]:
    said = "+".join(option.choices)
    if not entries:
        return [Problem(f"no {option.each} named", where, expected=said, hint=f"Try {option.name}={option.default}")]
    found = [
        Problem(f"unknown {option.each}", where, repr(e), said) for e in entries if said and e not in option.choices
    ]
    twice = [e for e in dict.fromkeys(entries) if entries.count(e) > 1]
    return found + [Problem(f"a {option.each} named twice", where, repr(e), "each once") for e in twice]


def _wrong_number(option: Option, text: str, where: str) -> list[Problem]:
    try:
        value = int(text) if option.kind is Kind.WHOLE else float(text)
    except ValueError:
        return [Problem("a task option has the wrong form", where, repr(text), option.kind.value)]
    if option.low <= value <= option.high:  # false for NaN
        return []
    top = "" if math.isinf(option.high) else f" and at most {option.high:,.0f}"
    return [Problem("a task option is out of range", where, text, f"at least {option.low:g}{top}")]
