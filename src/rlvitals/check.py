"""The vocabulary of a check: what it needs, what limit it compares with, what it may answer, and what to do then.

A check is one frozen `Check` in one file. Its `judge` is a pure function of a `View` (what was logged so far) and its
limits; a `Fold` lets it look at every single row at bounded cost. Nothing here prints, reads files or keeps state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from rlvitals.schema import Example

if TYPE_CHECKING:
    from rlvitals.auditresults import AuditKind
    from rlvitals.view import Chunk, View


class Family(IntEnum):
    """Where a fault sits in the triage of "Why GRPO training fails"; smaller is further upstream."""

    DATA = 0
    CONFIG = 5
    TASK = 10
    REWARD = 20
    SIGNAL = 30
    ROLLOUT = 40
    LENGTH = 50
    ENTROPY = 55
    UPDATE = 57
    LEASH = 60
    SYNC = 70
    HELD_OUT = 80

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", "-")


class Action(StrEnum):
    """The next move; it gives the verdict."""

    STOP = "stop"  # every further step makes it worse
    FIX = "fix"  # something is broken and must be repaired
    ADJUST = "adjust"  # a setting should change; the run can go on
    FINISH = "finish"  # nothing left to learn here
    WATCH = "watch"  # true and worth a look; no move yet
    NOTE = "note"  # an explanation; healthy


class Verdict(StrEnum):
    HEALTHY = "healthy"
    WATCH = "watch"
    ACT = "act"
    STOP = "stop"
    CANNOT_SAY = "cannot_say"


VERDICT_OF: Mapping[Action, Verdict] = {
    Action.STOP: Verdict.STOP,
    Action.FIX: Verdict.ACT,
    Action.ADJUST: Verdict.ACT,
    Action.FINISH: Verdict.WATCH,
    Action.WATCH: Verdict.WATCH,
    Action.NOTE: Verdict.HEALTHY,
}
MOVES = frozenset(a for a, v in VERDICT_OF.items() if v in (Verdict.ACT, Verdict.STOP))
"""The actions that ask for a move now."""
SEVERITY: tuple[Action, ...] = (
    Action.NOTE,
    Action.WATCH,
    Action.FINISH,
    Action.ADJUST,
    Action.FIX,
    Action.STOP,
)


class Confidence(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class SourceKind(StrEnum):
    """Where a limit comes from, strongest first."""

    USER = "user"
    DEFINITION = "definition"
    MEASURED = "measured"
    PAPER = "paper"
    CONVENTION = "convention"  # caps the action at watch


@dataclass(frozen=True, slots=True)
class Threshold:
    """One limit. `reference` says where it comes from: a paper, a report, or a heading of a page in docs/."""

    name: str
    value: float
    unit: str
    source: SourceKind
    reference: str

    def __str__(self) -> str:
        return f"{self.value:g} {self.unit}".rstrip() + f" ({self.source.value}: {self.reference})"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation that speaks for a finding, with the very threshold that it was compared with.

    Attributes:
        text: the whole sentence for people: value with unit, from what to what, since when.
        observed: the value compared; NaN only where the observation is itself a non-finite value.
        before: the value it is contrasted with (own start, other series), if any.
        steps: first and last training step it is based on.
        examples: rollouts that show it, named by step, group and index; their text is untrusted.
    """

    metric: str
    text: str
    observed: float
    unit: str
    steps: tuple[int, int]
    threshold: Threshold | None = None
    comparison: str = ""  # ">", "<", "==", "!="
    before: float | None = None
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class Onset:
    """An interval of steps in which something began; `first == last` when known exactly."""

    first: int
    last: int

    def before(self, other: Onset) -> bool:
        """True when this began certainly earlier; overlap counts as not earlier."""
        return self.last < other.first

    def __str__(self) -> str:
        return f"step {self.first}" if self.first == self.last else f"steps {self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault that is there, with its evidence (at least one piece: a finding without evidence cannot exist)."""

    summary: str
    action: Action
    confidence: Confidence
    onset: Onset
    evidence: tuple[Evidence, ...]
    variant: str = ""  # "all wrong", "all right" ...: selects the plan

    def __post_init__(self) -> None:
        if not self.evidence:
            raise ValueError(f"finding without evidence: {self.summary}")


@dataclass(frozen=True, slots=True)
class Fired:
    finding: Finding


@dataclass(frozen=True, slots=True)
class Clear:
    """Looked and not there; `because` names the number that rules it out."""

    because: str


@dataclass(frozen=True, slots=True)
class Few:
    """A series of which fewer values were logged than a check needs."""

    metric: str
    have: int
    needed: int

    def __str__(self) -> str:
        return f"{self.have} logged values of {self.metric}; {self.needed} are needed"


@dataclass(frozen=True, slots=True)
class NoData:
    """Could not look. `missing` are canonical metrics or config fields; the report adds how to log them.

    A check may name what it looked for: the engine takes what is there off `missing` and sets `few` and `unmeasured`,
    metrics that were logged as a constant 0 or as NaN and so say nothing (see `blind.py`).
    """

    missing: tuple[str, ...]
    reason: str = ""
    few: tuple[Few, ...] = ()
    unmeasured: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotApplicable:
    reason: str


@dataclass(frozen=True, slots=True)
class Crashed:
    error: str


Outcome = Fired | Clear | NoData | NotApplicable | Crashed


@dataclass(frozen=True, slots=True)
class Needs:
    """What must have been logged before `judge` is asked; the engine answers NoData otherwise.

    Attributes:
        all_of: metrics that must each have at least `rows` finite values.
        any_of: metrics of which one is enough ("held-out" stands for any held-out set; "reward_part/" for the family).
        config: RunConfig fields that must be known.
        audit: kind of audit of which a record must lie beside the run.
    """

    all_of: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    rows: int = 1
    audit: AuditKind | None = None


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing to do. `knob` is a canonical setting, shown in the user's trainer's own words.

    `move` is "raise", "lower", "set", "check" or "" and lets the plan refuse contradictions.
    """

    text: str
    knob: str = ""
    move: str = ""


@dataclass(frozen=True, slots=True)
class Verify:
    """How to see that it worked, in a form a machine can check: `metric` `op` `value` over the next `steps` steps."""

    text: str
    metric: str = ""
    op: str = (
        ""  # "<", ">", "==", "!=", "some >", "first <", "finite", "rising", "not rising", "not falling", "as before"
    )
    value: float | None = None
    steps: int = 20


class Rollback(StrEnum):
    BEFORE_ONSET = "before onset"  # newest complete checkpoint before the root cause began
    CURRENT = "current checkpoint"  # salvageable: resume with the changed knob
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Plan:
    remedies: tuple[Remedy, ...]
    verify: tuple[Verify, ...]
    rollback: Rollback = Rollback.NONE


@dataclass(frozen=True, slots=True)
class LookAlike:
    """A normal state that looks the same in the curves, and what tells it apart."""

    looks_like: str
    told_apart_by: str


@dataclass(frozen=True, slots=True)
class Fold:
    """Lets a check see every row: `step(state, chunk)` returns the next state, the same for any chunking of the rows.

    States are small immutable values. Sums over rows belong in the view's blocks, whose arithmetic does not depend on
    chunking; a fold keeps counts, firsts, lasts and streaks. Rows that lack one of `needs` must leave the state as it
    is: they are not handed over.
    """

    start: Any
    step: Callable[[Any, Chunk], Any]
    needs: tuple[str, ...] = ()


Judge = Callable[["View", Mapping[str, Threshold]], Outcome]


@dataclass(frozen=True)
class Check:
    """One way a run can be unwell.

    Attributes:
        id: letter of the family and three digits, never reused.
        name: kebab-case, states the fault.
        fault: one sentence for people who have never heard of it.
        needs: what must be logged.
        thresholds: every limit that `judge` compares with.
        plans: variant -> plan; "" is the default.
        leads_to: ids of checks whose faults this one explains.
        patience: consecutive looks at which it must fire before it is reported.
    """

    id: str
    name: str
    family: Family
    fault: str
    why: str  # what it means for training, two or three sentences, with sources
    needs: Needs
    thresholds: tuple[Threshold, ...]
    judge: Judge
    plans: Mapping[str, Plan]
    fold: Fold | None = None
    leads_to: tuple[str, ...] = ()
    look_alikes: tuple[LookAlike, ...] = ()
    patience: int = 1
    sources: tuple[str, ...] = ()

    def plan(self, variant: str) -> Plan:
        """Return the plan of a variant, or the default one."""
        return self.plans.get(variant, self.plans[""])


def capped(finding: Finding) -> Finding:
    """Hold a finding at watch when nothing but convention speaks for it, whatever its check asked for."""
    limits = [e.threshold for e in finding.evidence if e.threshold is not None]
    only_convention = bool(limits) and all(t.source is SourceKind.CONVENTION for t in limits)
    if only_convention and SEVERITY.index(finding.action) > SEVERITY.index(Action.FINISH):
        return replace(finding, action=Action.WATCH)
    return finding


@dataclass(frozen=True, slots=True)
class Tally:
    """State of a row-wise test: how many rows could be tested, how many failed it, and where."""

    tested: int = 0
    failed: int = 0
    first: int | None = None  # step of the first failure
    last: int | None = None  # step of the last failure
    streak: int = 0  # failures in a row, counted over tested rows, up to now
    streak_from: int | None = None  # step at which that streak began
    value: float = field(default=float("nan"))  # the value at the last failure


def tally(test: Callable[[Chunk], tuple[np.ndarray, np.ndarray, np.ndarray]], *, needs: tuple[str, ...] = ()) -> Fold:
    """Build a fold from a row-wise test.

    `test(chunk)` returns three arrays [rows]: bool testable, bool failed, float value to show. Rows without every one
    of `needs` are not testable.
    """

    def step(state: Tally, chunk: Chunk) -> Tally:
        testable, failed, value = test(chunk)
        at = np.flatnonzero(testable)
        if at.size == 0:
            return state
        bad = failed[at]
        hits = at[bad]
        tested, count = state.tested + int(at.size), state.failed + int(hits.size)
        if hits.size == 0:
            return replace(state, tested=tested, streak=0, streak_from=None)
        last_good = np.flatnonzero(~bad)
        run = int(bad.size - 1 - last_good[-1]) if last_good.size else int(bad.size) + state.streak
        if run == 0:
            began = None
        elif last_good.size or state.streak == 0:
            began = int(chunk.steps[at[bad.size - min(run, bad.size)]])
        else:
            began = state.streak_from
        first = state.first if state.first is not None else int(chunk.steps[hits[0]])
        return Tally(tested, count, first, int(chunk.steps[hits[-1]]), run, began, float(value[hits[-1]]))

    return Fold(start=Tally(), step=step, needs=needs)
