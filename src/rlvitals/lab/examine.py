"""What rlvitals says of a lab run, as a user would have heard it: at every scheduled look, and at the end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rlvitals.check import Verdict
from rlvitals.checks import CHECKS
from rlvitals.conclude import conclude
from rlvitals.diagnosis import BlindSpot, Diagnosis
from rlvitals.engine import Engine, run_engine
from rlvitals.errors import InputError
from rlvitals.ingest import load


@dataclass(frozen=True, slots=True)
class Alarm:
    """A check that began to ask for a move: at which step it was said, and with which action."""

    step: int
    check: str
    action: str


@dataclass(frozen=True, slots=True)
class Heard:
    """What was said of one run in one layout.

    Attributes:
        first: check named first at the end, "" when none; causes, consequences: all of them, in order.
        alarms: every opening of a move during the run; named: check -> step at which it first led the causes.
        stop_step: first step with the verdict stop or act, -1 for never.
        rollback: step asked for, -1 for none, and rollback_kind: before the onset or the current state.
        onset: of the first cause.
        blind: checks that could not look at the end, where the report says what would let them.
        error: why the layout could not be read, "" when it could.
    """

    verdict: str
    headline: str
    first: str
    causes: tuple[str, ...]
    consequences: tuple[str, ...]
    watched: tuple[str, ...]
    alarms: tuple[Alarm, ...]
    named: dict[str, int]
    stop_step: int
    rollback: int
    onset: tuple[int, int]
    steps: int
    error: str = ""
    rollback_kind: str = ""
    blind: tuple[str, ...] = ()


def nothing(error: str) -> Heard:
    """Return what is heard of a log that cannot be read."""
    return Heard("cannot_say", error, "", (), (), (), (), {}, -1, -1, (-1, -1), 0, error)


def examine(folder: Path) -> Heard:
    """Replay a run look by look, as the live monitor looks, and return what was said."""
    try:
        run = load(folder)
    except InputError as error:
        return nothing(str(error)[:300])
    said = _Said()
    engine = run_engine(run, CHECKS, said.look)
    diagnosis = conclude(engine.examine(), CHECKS, name=run.name, run=run)
    return _heard(diagnosis, said)


class _Said:
    """What was said so far."""

    def __init__(self) -> None:
        self.alarms: list[Alarm] = []
        self.named: dict[str, int] = {}
        self.stop_step = -1
        self._open: frozenset[str] = frozenset()

    def look(self, engine: Engine) -> None:
        step = engine.store.last_step
        diagnosis = conclude(engine.examine(), CHECKS, name="")
        moving = {c.id: c for c in diagnosis.causes if c.asks_for_a_move}
        self.alarms += [Alarm(step, i, c.action.value) for i, c in moving.items() if i not in self._open]
        self._open = frozenset(moving)
        if diagnosis.causes and diagnosis.causes[0].id in moving:
            self.named.setdefault(diagnosis.causes[0].id, step)
        if self.stop_step < 0 and diagnosis.verdict in (Verdict.ACT, Verdict.STOP):
            self.stop_step = step


def _says_how(spot: BlindSpot) -> bool:
    """Return True when a blind spot gives a line that logs what is missing, or an audit that finds it out."""
    return bool(spot.how_to_log) or any(m.startswith("audit:") for m in spot.missing)


def _heard(diagnosis: Diagnosis, said: _Said) -> Heard:
    moving = [c for c in diagnosis.causes if c.asks_for_a_move]
    first = diagnosis.causes[0] if diagnosis.causes else None
    onset = (first.onset.first, first.onset.last) if first is not None else (-1, -1)
    step = diagnosis.rollback.step
    return Heard(
        verdict=diagnosis.verdict.value,
        headline=diagnosis.headline,
        first=moving[0].id if moving else "",
        causes=tuple(c.id for c in moving),
        consequences=tuple(q.id for c in diagnosis.causes for q in c.consequences),
        watched=tuple(c.id for c in diagnosis.causes if not c.asks_for_a_move),
        alarms=tuple(said.alarms),
        named=said.named,
        stop_step=said.stop_step,
        rollback=-1 if step is None else step,
        onset=onset,
        steps=diagnosis.position.last_step,
        rollback_kind=diagnosis.rollback.kind.value,
        blind=tuple(spot.id for spot in diagnosis.blind_spots if _says_how(spot)),
    )
