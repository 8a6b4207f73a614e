"""What is kept of a fault or a healthy run beside its results, as JSON types: all that scoring and the page need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlvitals.lab.fault import Fault, Harm, Healthy

ALL_LAYOUTS = ("own", "trl", "verl", "chapter7")


@dataclass(frozen=True)
class About:
    """A fault or a healthy run without what it does.

    Attributes:
        harm: strength -> what it does to the held-out score, measured on the building seeds; none for healthy runs.
        why: strength -> why its harm is declared, for those whose held-out score does not hold it.
        hidden: layout -> why the root cannot be told from what that trainer logs.
        watch: of a healthy run: check ids that may say watch.
    """

    name: str
    says: str
    place: str = ""
    fix: str = ""
    start: int = 1
    invariant: bool = False
    harm: Mapping[str, str] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)
    roots: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    hidden: Mapping[str, str] = field(default_factory=dict)
    watch: tuple[str, ...] = ()

    @property
    def is_healthy(self) -> bool:
        return not self.place

    @property
    def named(self) -> tuple[str, ...]:
        """Return what counts as the first cause: what names the cause, and its direct signs."""
        return (*self.roots, *self.signs)

    @property
    def fine(self) -> frozenset[str]:
        """Return what accuses nothing else: the cause, its signs and its consequences."""
        return frozenset((*self.named, *self.allowed))

    def harm_of(self, strength: str) -> Harm:
        """Return the harm of a strength; one that is not described counts as harmful."""
        return Harm(self.harm.get(strength, Harm.YES.value))

    def hides(self, layout: str) -> str:
        """Return why nothing can name the root in a layout, "" where it can be named."""
        if layout in self.hidden:
            return self.hidden[layout]
        return "" if self.named else "no check can name it"


def about(subject: Fault | Healthy) -> dict[str, Any]:
    """Return the description of a fault or a healthy run as JSON types."""
    if isinstance(subject, Healthy):
        return {"name": subject.name, "says": subject.hard, "watch": list(subject.watch)}
    return {
        "name": subject.name,
        "says": subject.broken,
        "place": subject.place.value,
        "fix": subject.fix,
        "start": subject.start,
        "invariant": subject.invariant,
        "harm": {s.name: s.harm.value for s in subject.strengths},
        "why": {s.name: s.why for s in subject.strengths if s.why},
        "roots": list(subject.roots),
        "signs": list(subject.signs),
        "allowed": sorted(set(subject.allowed)),
        "hidden": dict(subject.hidden),
    }


def from_json(found: Mapping[str, Any]) -> About:
    """Return the description that JSON types hold. Raises KeyError and TypeError for another form."""
    lists = {k: tuple(found[k]) for k in ("roots", "signs", "allowed", "watch") if k in found}
    return About(**{**found, **lists})
