"""A case: one run of the lab, a fault at a strength or a healthy one, with its seed and its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rlvitals.errors import InputError, Problem
from rlvitals.grpo.config import Config, digest
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.presets import config_of
from rlvitals.lab.crash import own_line, said_of
from rlvitals.lab.fault import Fault, Healthy, Injection, Strength
from rlvitals.lab.valid import injected_parts

RECIPE = "grpo"  # of a run whose fault asks for no other
STEPS = 120  # of a run with a fault (lab: what the embedded task needs to be nearly solved)
EVAL_EVERY = 5  # steps between held-out evaluations
MAX_NAME = 80  # characters of a folder


@dataclass(frozen=True)
class Case:
    """One run.

    Attributes:
        subject: the fault, or the healthy run.
        strength: None for healthy runs and for the control of a fault, the same run with nothing broken.
        steps: in place of the subject's own, 0 for those.
        more: settings of the healthy run below those of the subject: another task, another model.
        source: "module:NAME" of a subject that is none of the lab's own, "" for those.
    """

    subject: Fault | Healthy
    strength: Strength | None
    seed: int
    steps: int = 0
    more: tuple[tuple[str, object], ...] = ()
    source: str = ""

    @property
    def is_control(self) -> bool:
        """True for the run of a fault with nothing broken."""
        return self.strength is None and isinstance(self.subject, Fault)

    @property
    def name(self) -> str:
        """Folder of the run: `subject/strength/seed`; faults with equal settings share their control."""
        if isinstance(self.subject, Healthy):
            kind, inner = "healthy", self.subject.name
        elif self.strength is None:
            # the control and the fault differ in nothing but the injection
            kind, inner = "control", _told(self.subject.settings) or "default"
        else:
            kind, inner = self.subject.name, self.strength.name
        if self.more:
            inner = f"{inner}.{_told(dict(self.more))}"
        steps = self.steps or self.subject.steps
        if steps and (self.steps or kind == "control"):
            inner = f"{inner}.{steps}-steps"
        return f"{kind}/{_slug(inner)}/seed-{self.seed}"

    def setup(self) -> tuple[Config, Parts]:
        """Return what is trained: the healthy setup, or the one with the fault in it.

        Raises InputError where the fault cannot be put in.
        """
        config, parts = base(self.subject, self.seed, self.steps, dict(self.more)), Parts()
        if isinstance(self.subject, Healthy):
            return config, self.subject.parts or parts
        if self.strength is None:
            return config, parts
        where = self.source or self.subject.name
        try:
            given = self.subject.inject(Injection(config, parts, self.strength.value, self.subject.start))
        except InputError:
            raise
        except Exception as error:  # a user's own code may fail in any way
            line = own_line(error)
            said = said_of(error) + (f" ({line})" if line else "")
            raise InputError(
                Problem("inject failed", where, said, "a function that returns (config, parts)")
            ) from error
        found = injected_parts(given, where)
        if isinstance(found, Problem):
            raise InputError(found)
        return found


def refused(cases: Sequence[Case]) -> list[Problem]:
    """Return what keeps cases from being trained, before any of them is: one seed shows what a fault's code does."""
    found = []
    for case in {(c.subject.name, c.strength): c for c in reversed(cases)}.values():
        subject, steps = case.subject, case.steps or case.subject.steps or STEPS
        if not isinstance(subject, Fault) or case.strength is None:
            continue
        if steps < subject.start:
            found.append(ends_too_early(subject, steps))
        elif case.source:
            try:
                case.setup()
            except InputError as error:
                found += error.problems
    return list(dict.fromkeys(reversed(found)))


def ends_too_early(fault: Fault, steps: int) -> Problem:
    """Return what to say of a run that ends before its fault begins: nothing is broken in it."""
    return Problem(f"{fault.name} breaks from step {fault.start} on, after the run has ended", "--steps",
                   str(steps), f"at least {fault.start + 20}", "0 takes the fault's own")  # fmt: skip


def base(subject: Fault | Healthy, seed: int, steps: int = 0, more: Mapping[str, object] | None = None) -> Config:
    """Return the healthy config that a case starts from; what the subject itself asks for wins over `more`."""
    settings = {**(more or {}), **subject.settings}
    config = config_of(str(settings.pop("recipe", RECIPE)))
    config = replace(config, steps=steps or subject.steps or STEPS, seed=seed, eval_every=EVAL_EVERY)
    return replace(config, **settings)  # type: ignore[arg-type]


def cases_of(
    subjects: Sequence[tuple[Fault | Healthy, str]],
    seeds: Sequence[int],
    *,
    steps: int = 0,
    more: Mapping[str, object] | None = None,
) -> list[Case]:
    """Return every run that subjects (each with its source) need, seed by seed, each once, controls included."""
    found: dict[str, Case] = {}
    changed = tuple(sorted((more or {}).items()))
    for seed in seeds:
        for subject, source in subjects:
            strengths = (None, *subject.strengths) if isinstance(subject, Fault) else (None,)
            for strength in strengths:
                case = Case(subject, strength, seed, steps, changed, source)
                found.setdefault(case.name, case)
    return list(found.values())


def _told(settings: Mapping[str, object]) -> str:
    return ".".join(f"{key}-{settings[key]}" for key in sorted(settings))


def _slug(text: str) -> str:
    """Return a name for a folder; a long one keeps its length and its identity."""
    kept = "".join(c if c.isalnum() or c in "._-" else "-" for c in text)
    return kept if len(kept) <= MAX_NAME else f"{kept[: MAX_NAME - 17]}-{digest(text)}"
