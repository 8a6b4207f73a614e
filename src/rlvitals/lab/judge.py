"""Was what was said of a run right? One run, one layout, against what must and may be found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from rlvitals.check import Rollback, Verdict
from rlvitals.lab.about import About
from rlvitals.lab.fault import Harm
from rlvitals.lab.kept import FAILED, Row, Said


class Asked(StrEnum):
    """What is asked of rlvitals on a broken run in one layout."""

    NAME = "name"  # harmful, and the layout shows it: the cause or its direct sign comes first
    HIDDEN = "hidden"  # harmful, and the layout cannot show it: to say so
    MILD = "mild"  # as NAME, where the harm is small
    INVARIANT = "invariant"  # harmless, but a definition is violated: to be found
    QUIET = "quiet"  # harmless, nothing is violated: no move at any look


class Got(StrEnum):
    """What came of it."""

    FIRST = "cause first"
    SIGN = "its direct sign first"
    BESIDE = "cause or sign found, not first"
    WATCHED = "cause or sign watched"
    CONSEQUENCE = "a consequence named"
    OTHER = "something else named"
    SILENT = "nothing named"


class Told(StrEnum):
    """What was said of a harmful run whose log cannot show the cause, in the order in which it is looked at."""

    NAMED = "the cause or its direct sign named first"
    CANNOT_SAY = "cannot say"
    CONSEQUENCE = "a move for a consequence"
    ELSE = "a move for something else"
    WATCH_BLIND = "watch, with what to log to see the cause"
    WATCH = "watch, without"
    HEALTHY_BLIND = "healthy, with what to log to see the cause"
    HEALTHY = "healthy, without"


SAYS_SO = frozenset({Told.NAMED, Told.CANNOT_SAY, Told.WATCH_BLIND})
"""What is right of a run whose log cannot show the cause: a run that is harmed is never healthy."""


class Back(StrEnum):
    """Where the plan of a damaged run goes back to."""

    TARGET = "an earlier step"
    START = "start again"  # step 0
    CURRENT = "the current state"
    NONE = "none asked for"


@dataclass(frozen=True, slots=True)
class Judged:
    """The judgement of one broken run in one layout.

    Attributes:
        right: what was asked came about, at the end of the run.
        told: of a run whose log cannot show the cause, else None.
        first_heard: the first cause that ever led was the cause or its direct sign.
        moves: what asked for a move at the end; ever_moves: at any look from the first broken step on.
        wrong: causes at the end that are neither root, sign nor consequence; ever: such alarms at any time.
        early: alarms before the first broken step.
        delay: steps from the first broken one to the look at which the cause or its sign led; inf for never.
        after_damage: the same from the last evaluation before the damage; nan without damage.
        saved: share of the planned steps that a stop at the first act or stop would have saved, 0 for never.
        back: what kind of target was given.
        rollback: True when the target lies at or before the last evaluation before the damage; None: none was asked.
        at_onset: True when it is the state that the first broken step began from, or an earlier one (step 0 where the
            first step is broken); None where none was asked.
    """

    asked: Asked
    got: Got
    right: bool
    told: Told | None
    first_heard: bool
    moves: tuple[str, ...]
    ever_moves: tuple[str, ...]
    wrong: tuple[str, ...]
    ever: tuple[str, ...]
    early: int
    delay: float
    after_damage: float
    saved: float
    back: Back
    rollback: bool | None
    at_onset: bool | None

    @property
    def named(self) -> bool:
        """True when the cause or its direct sign came first."""
        return self.got in (Got.FIRST, Got.SIGN)


def judge(row: Row, layout: str, about: About) -> Judged:
    """Return the judgement of a run with a fault in one layout."""
    said, asked, fine = row.said[layout], _asked(row, layout, about), about.fine
    since_broken = tuple(dict.fromkeys(c for step, c in said.alarms if step >= row.start))
    late = {c: step for c, step in said.named.items() if step >= row.start}
    since = min((step for check, step in late.items() if check in about.named), default=math.inf)
    got = _got(said, about)
    told = _told(said, got, fine) if asked is Asked.HIDDEN else None
    ever_moves = tuple(dict.fromkeys((*said.causes, *since_broken)))
    back = _back(said)
    return Judged(
        asked=asked,
        got=got,
        right=_right(asked, got, told, ever_moves, said),
        told=told,
        first_heard=bool(late) and min(late, key=lambda c: late[c]) in about.named,
        moves=said.causes,
        ever_moves=ever_moves,
        wrong=tuple(c for c in said.causes if c not in fine),
        ever=tuple(c for c in since_broken if c not in fine),
        early=sum(step < row.start for step, _ in said.alarms),
        delay=since - (row.start - 1),
        after_damage=since - row.damage if row.damage >= 0 else math.nan,
        saved=max(row.steps - said.stop, 0) / row.steps if said.stop >= row.start else 0.0,
        back=back,
        rollback=said.rollback <= row.damage if said.rollback >= 0 and row.damage >= 0 else None,
        at_onset=said.rollback < row.start if said.rollback >= 0 else None,
    )


def _asked(row: Row, layout: str, about: About) -> Asked:
    harm = about.harm_of(row.strength)
    hidden = bool(about.hides(layout))
    if harm is Harm.NONE:
        return Asked.INVARIANT if about.invariant and not hidden else Asked.QUIET
    if hidden:
        return Asked.HIDDEN
    return Asked.NAME if harm is Harm.YES else Asked.MILD


def _got(said: Said, about: About) -> Got:
    if said.causes and said.causes[0] in about.roots:
        return Got.FIRST
    if said.causes and said.causes[0] in about.signs:
        return Got.SIGN
    if set(said.causes) & set(about.named):
        return Got.BESIDE
    if set(said.watched) & set(about.named):
        return Got.WATCHED
    if not said.causes:
        return Got.SILENT
    return Got.CONSEQUENCE if said.causes[0] in about.fine else Got.OTHER


def _told(said: Said, got: Got, fine: frozenset[str]) -> Told:
    if got in (Got.FIRST, Got.SIGN):
        return Told.NAMED
    if said.verdict == Verdict.CANNOT_SAY:
        return Told.CANNOT_SAY
    if said.causes:
        return Told.CONSEQUENCE if said.causes[0] in fine else Told.ELSE
    if said.verdict == Verdict.HEALTHY:
        return Told.HEALTHY_BLIND if said.blind else Told.HEALTHY
    return Told.WATCH_BLIND if said.blind else Told.WATCH


def _right(asked: Asked, got: Got, told: Told | None, ever_moves: tuple[str, ...], said: Said) -> bool:
    if said.error.startswith(FAILED):
        return False
    if asked is Asked.HIDDEN:
        return told in SAYS_SO
    if asked is Asked.QUIET:
        return not ever_moves
    return got in (Got.FIRST, Got.SIGN)


def _back(said: Said) -> Back:
    if said.rollback > 0:
        return Back.TARGET
    if said.rollback == 0 or said.back == Rollback.BEFORE_ONSET:
        return Back.START
    return Back.CURRENT if said.back == Rollback.CURRENT else Back.NONE
