"""What a fault is: what is broken, where, from when on, how strongly, and what must be found for it.

A fault replaces one piece of the trainer (`grpo.parts.Parts`) or one setting, there where it goes wrong in life. The
rest of the run is the healthy one of the same seed, so that harm is measured against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the scoreboard reads kept results without torch
    from rlvitals.grpo.config import Config
    from rlvitals.grpo.parts import Parts


class Place(StrEnum):
    """Where in a training system it is broken."""

    TASK = "task"
    REWARD = "reward"
    SAMPLER = "sampler"
    TRAINER = "trainer"
    SYNC = "sync"
    ENVIRONMENT = "environment"
    LOGGING = "logging"


class Harm(StrEnum):
    """What it does to the true held-out score at the end, measured against control seeds (benchmarks/lab_harm.py)."""

    NONE = "none"
    MILD = "mild"
    YES = "yes"


@dataclass(frozen=True, slots=True)
class Strength:
    """How strongly a fault acts.

    Attributes:
        name: what a user would call it, with its unit: "every 16 steps", "temperature 0.05".
        value: handed to `inject`.
        harm: as measured; decides how the run is scored.
        why: of a harm that the held-out score does not hold and that is declared, "" for a measured one.
    """

    name: str
    value: float
    harm: Harm = Harm.YES
    why: str = ""


@dataclass(frozen=True, slots=True)
class Injection:
    """What `inject` gets: the healthy setup, the strength, and the step from which it is broken."""

    config: Config
    parts: Parts
    value: float
    start: int


Inject = Callable[[Injection], "tuple[Config, Parts]"]
Shows = Callable[[Sequence[Mapping[str, float]]], str]


@dataclass(frozen=True)
class Fault:
    """One way to break a run.

    Attributes:
        name: kebab-case; the file is `lab/faults/<name with underscores>.py`.
        broken: what is broken, one sentence.
        start: first step that is broken; 1 from the beginning.
        settings: settings of the healthy run it is put into, where the default ones would not show it.
        roots: check ids that name what is broken, synonyms included; empty when no check does.
        signs: check ids that name its direct sign, right as the first cause where a log does not show the cause
            itself; counted apart. Without roots and signs nothing can tell it from the data.
        allowed: check ids that may be found beside it: its consequences.
        invariant: a violated definition: it counts as found without any harm.
        hidden: layout -> why the root cannot be told from what that trainer logs; "cannot say" is then right.
        fix: what mends it, in words; `rlvitals lab show` applies it by leaving the injection out.
        steps: of a run; 0 takes the lab's default.
        crashes: what is put in raises on purpose; a run that ends so is a result, where it is a mistake otherwise.
    """

    name: str
    broken: str
    place: Place
    inject: Inject
    strengths: tuple[Strength, ...]
    roots: tuple[str, ...]
    fix: str
    start: int = 1
    settings: Mapping[str, object] = field(default_factory=dict)
    signs: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    invariant: bool = False
    hidden: Mapping[str, str] = field(default_factory=dict)
    steps: int = 0
    crashes: bool = False

    @property
    def named(self) -> tuple[str, ...]:
        """Return the check ids of which one must be the first cause named."""
        return (*self.roots, *self.signs)


@dataclass(frozen=True)
class Healthy:
    """A run with nothing broken that is hard to tell from a sick one.

    Attributes:
        hard: why it is a hard case, one sentence.
        settings: what differs from the lab's base settings.
        parts: pieces that differ; the default ones when None.
        watch: check ids that may say watch (a long plateau); act and stop are false alarms always.
        shows: rows of its log -> "" when they show what `hard` says, else what they show; None where `hard` claims
            nothing that could be counted.
    """

    name: str
    hard: str
    settings: Mapping[str, object] = field(default_factory=dict)
    parts: Parts | None = None
    watch: tuple[str, ...] = ()
    steps: int = 0
    shows: Shows | None = None
