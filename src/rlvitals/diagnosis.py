"""The answer: one verdict, causes in order with their consequences, one plan, blind spots, a rollback target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rlvitals.check import MOVES, Action, Few, Finding, Onset, Outcome, Rollback, Verdict, Verify
from rlvitals.engine import Incident
from rlvitals.schema import Run, SharedPhrase


@dataclass(frozen=True, slots=True)
class Consequence:
    """A fault that an upstream one explains."""

    id: str
    name: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class Cause:
    """A fault that nothing else found here explains, with what it led to, in order of onset."""

    id: str
    name: str
    finding: Finding
    consequences: tuple[Consequence, ...] = ()

    @property
    def action(self) -> Action:
        return self.finding.action

    @property
    def onset(self) -> Onset:
        return self.finding.onset

    @property
    def actions(self) -> tuple[Action, ...]:
        """What this cause and everything that it led to ask for."""
        return (self.finding.action, *(c.finding.action for c in self.consequences))

    @property
    def asks_for_a_move(self) -> bool:
        return not MOVES.isdisjoint(self.actions)


@dataclass(frozen=True, slots=True)
class BlindSpot:
    """A check that could not look, and what would let it: what is missing, and of what there is too little."""

    id: str
    name: str
    family: str
    missing: tuple[str, ...]
    how_to_log: tuple[str, ...]
    reason: str = ""
    few: tuple[Few, ...] = ()  # `reason` begins with the same in words


@dataclass(frozen=True, slots=True)
class RuledOut:
    """A fault that was looked for and is not there, with the number that says so."""

    id: str
    name: str
    because: str


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One move of the plan. `cause` is the id of the finding it answers; "" for the standing first step."""

    text: str
    cause: str = ""
    knob: str = ""  # in the trainer's own words
    move: str = ""
    verify: tuple[Verify, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A remedy that is not in the plan, and why: it contradicts an upstream one or must wait for it."""

    text: str
    cause: str
    reason: str


@dataclass(frozen=True, slots=True)
class RollbackTarget:
    """Where to resume. `step` is None when the current state is kept; `path` is empty when no checkpoint is known."""

    kind: Rollback
    step: int | None
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Exploit:
    """The text of a suspected exploit: what the rollouts of a run say for their reward since a finding began.

    Attributes:
        id, name: of the finding; "" where a user chose the step.
        before, since: old rollouts are of steps below the one, new ones from the other on.
        old, new: rewarded rollouts whose texts were compared.
        phrases: what the new ones share and the old ones do not, the most common first; untrusted.
        too_few: there were too few texts to compare.
    """

    id: str
    name: str
    before: int
    since: int
    old: int
    new: int
    phrases: tuple[SharedPhrase, ...]
    too_few: bool = False


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much could be looked at."""

    ran: int  # fired or clear
    blind: int
    not_applicable: int
    crashed: int
    blind_families: tuple[str, ...]  # families none of whose applicable checks could run

    @property
    def applicable(self) -> int:
        return self.ran + self.blind + self.crashed


@dataclass(frozen=True, slots=True)
class Cost:
    """What ran after the root cause began."""

    steps_after_onset: int
    share_after_onset: float  # fraction of the steps so far
    gpu_hours: float | None = None
    money: float | None = None  # in the user's own currency


@dataclass(frozen=True, slots=True)
class Position:
    """Which part of the run was examined."""

    rows: int
    first_step: int
    last_step: int
    usable_rows: int  # rows with a finite reward


@dataclass(frozen=True)
class Diagnosis:
    """One ordered answer about one run. `run` is what it was made from and takes no part in comparisons."""

    name: str
    trainer: str
    verdict: Verdict
    headline: str
    position: Position
    causes: tuple[Cause, ...]
    notes: tuple[Cause, ...]  # findings that explain something normal
    incidents: tuple[Incident, ...]
    outcomes: Mapping[str, Outcome]
    coverage: Coverage
    blind_spots: tuple[BlindSpot, ...]
    ruled_out: tuple[RuledOut, ...]
    plan: tuple[PlanStep, ...]
    held_back: tuple[HeldBack, ...]
    rollback: RollbackTarget
    cost: Cost | None
    crash: str = ""  # how the process ended, when the log says that it died
    exploit: Exploit | None = None  # where hacking is suspected and the run has rollouts
    lesson: str = ""  # the last finding and fix recorded for the same task and model (`rlvitals record`)
    run: Run | None = field(default=None, compare=False, repr=False)

    def _repr_html_(self) -> str:
        from rlvitals.report.html import fragment

        return fragment(self)
