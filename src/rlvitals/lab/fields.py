"""The fields of a user's fault: what each is for, of which kind it must be, and what a call without it lacks."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from rlvitals.errors import Problem
from rlvitals.lab.about import ALL_LAYOUTS
from rlvitals.lab.fault import Fault, Harm, Healthy, Place, Strength

PLACES = ", ".join(f"Place.{p.name}" for p in Place)
HARMS = ", ".join(f"Harm.{h.name}" for h in Harm)
MAX_SHOWN = 80  # characters of a value in a message


@dataclass(frozen=True, slots=True)
class Kind:
    """What a field must hold: the test, and the same in words."""

    fits: Callable[[Any], bool]
    expected: str


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds)


def _ids(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(i, str) for i in value)


def _texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(k, str) for k in value)


def _layouts(value: Any) -> bool:
    return _texts(value) and all(k in ALL_LAYOUTS and isinstance(v, str) for k, v in value.items())


def _parts(value: Any) -> bool:
    from rlvitals.grpo.parts import Parts

    return value is None or isinstance(value, Parts)


TEXT = Kind(lambda v: isinstance(v, str) and bool(v.strip()), "a text")
MAYBE_TEXT = Kind(_is(str), "a text")
IDS = Kind(_ids, 'ids of checks in a tuple: ("R001", "S001"), or ()')
STEPS = Kind(lambda v: _is(int)(v) and v >= 0, "a whole number, 0 or more")
SETTINGS = Kind(_texts, 'settings of rlvitals train by name: {"prompts": 4}')
OF_FAULT: Mapping[str, Kind] = {
    "name": TEXT,
    "broken": TEXT,
    "place": Kind(_is(Place), f"one of {PLACES}"),
    "inject": Kind(callable, "a function of an Injection"),
    "fix": TEXT,
    "start": Kind(lambda v: _is(int)(v) and v >= 1, "a whole number, 1 or more"),
    "settings": SETTINGS,
    "roots": IDS,
    "signs": IDS,
    "allowed": IDS,
    "invariant": Kind(_is(bool), "True or False"),
    "hidden": Kind(_layouts, f"layout -> why: {{'trl': '...'}}, of the layouts {', '.join(ALL_LAYOUTS)}"),
    "steps": STEPS,
    "crashes": Kind(_is(bool), "True or False"),
}
OF_HEALTHY: Mapping[str, Kind] = {
    "name": TEXT, "hard": TEXT, "settings": SETTINGS, "parts": Kind(_parts, "rlvitals.grpo.parts.Parts, or None"),
    "watch": IDS, "steps": STEPS, "shows": Kind(lambda v: v is None or callable(v), "a function of rows, or None"),
}  # fmt: skip
OF_STRENGTH: Mapping[str, Kind] = {
    "name": TEXT, "value": Kind(_is(int, float), "a number"), "harm": Kind(_is(Harm), f"one of {HARMS}"),
    "why": MAYBE_TEXT,
}  # fmt: skip
WHAT: Mapping[str, str] = {
    "inject": "inject is no function",
    "start": "the first broken step is none",
    "roots": "roots are no checks",
    "signs": "signs are no checks",
    "allowed": "allowed are no checks",
}  # what a message says in place of "the field does not fit"
MEANS: Mapping[str, Mapping[str, str]] = {
    "Fault": {
        "name": "what it is called, and the folder of its runs",
        "broken": "what is broken, one sentence",
        "place": f"where it is broken: {PLACES}",
        "inject": "the function that breaks it",
        "strengths": "how strongly it acts, one run each",
        "roots": "ids of the checks that name what is broken, () when none does",
        "fix": "what mends it, in words",
    },
    "Healthy": {"name": "what it is called", "hard": "why it is hard to tell from a sick run, one sentence"},
    "Strength": {"name": "what a user would call it, with its unit", "value": "the number handed to inject"},
}


def kinds_wrong(subject: Fault | Healthy | Strength, at: str) -> Iterator[Problem]:
    """Yield every field that holds something of another kind."""
    kinds = OF_FAULT if isinstance(subject, Fault) else OF_HEALTHY if isinstance(subject, Healthy) else OF_STRENGTH
    for name, kind in kinds.items():
        value = getattr(subject, name)
        if not kind.fits(value):
            shown = f"{name}={value!r}"[:MAX_SHOWN] + f" ({type(value).__name__})"
            yield Problem(WHAT.get(name, f"the field {name} does not fit"), at, shown, kind.expected)


def explained(error: BaseException) -> tuple[str, str]:
    """Return (what is wrong with a call that makes a fault, what to write) of its TypeError, ("", "") for others."""
    found = re.match(r"(Fault|Healthy|Strength)\.__init__\(\) (.+)", str(error)) if type(error) is TypeError else None
    if found is None:
        return "", ""
    kind, text = found[1], found[2]
    names = re.findall(r"'(\w+)'", text)
    if text.startswith("missing"):
        means = "; ".join(f"{name}=, {MEANS[kind].get(name, 'see the page of the lab')}" for name in names)
        return f"the {kind} lacks {' and '.join(names)}", means
    if "unexpected keyword" in text and names:
        known = [f.name for f in fields({"Fault": Fault, "Healthy": Healthy, "Strength": Strength}[kind])]
        near = difflib.get_close_matches(names[0], known, n=1)
        return f"a {kind} has no field {names[0]}", f"{near[0]}=" if near else ", ".join(known)
    return "", ""
