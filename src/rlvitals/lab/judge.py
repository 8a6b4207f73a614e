"""Was what was said of a run right? One run, one layout, against what must and may be found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from rlvitals.check import Verdict
from rlvitals.lab.about import About
from rlvitals.lab.fault import Harm
from rlvitals.lab.kept import FAILED, Row, Said


class Asked(StrEnum):
    """What is asked of rlvitals on a broken run in one layout."""

    NAME = "name"  # harmful, and the layout shows it: the root cause comes first
    HIDDEN = "hidden"  # harmful, and the layout cannot show it: accuse nothing else
    MILD = "mild"  # as NAME, where the harm is small
    INVARIANT = "invariant"  # harmless, but a definition is violated: to be found
    QUIET = "quiet"  # harmless, nothing is violated: watch at most, what is allowed apart


class Got(StrEnum):
    """What came of it."""

    FIRST = "root first"
    BESIDE = "root found, not first"
    WATCHED = "root watched"
    OTHER = "something else named"
    SILENT = "nothing named"
    RIGHT = "as it should be"


@dataclass(frozen=True, slots=True)
class Judged:
    """The judgement of one broken run in one layout.

    Attributes:
        right: what was asked came about, at the end of the run.
        first_heard: the first cause that ever led was a root cause.
        wrong: causes at the end that are neither root nor consequence; ever: such alarms at any time.
        early: alarms before the first broken step.
        delay: steps from the first broken one to the look at which a root cause led; inf for never.
        after_damage: the same from the last evaluation before the damage; nan without damage.
        saved: share of the planned steps that a stop at the first act or stop would have saved, 0 for never.
        rollback: True when the target lies at or before the last evaluation before the damage; None: none was asked.
        rollback_strict: True when it lies before the first broken step; None where broken from the first step on.
    """

    asked: Asked
    got: Got
    right: bool
    first_heard: bool
    wrong: tuple[str, ...]
    ever: tuple[str, ...]
    early: int
    delay: float
    after_damage: float
    saved: float
    rollback: bool | None
    rollback_strict: bool | None


def judge(row: Row, layout: str, about: About) -> Judged:
    """Return the judgement of a run with a fault in one layout."""
    said, asked = row.said[layout], _asked(row, layout, about)
    fine = {*about.roots, *about.allowed}
    wrong = tuple(c for c in said.causes if c not in fine)
    ever = tuple(dict.fromkeys(c for step, c in said.alarms if c not in fine and step >= row.start))
    roots = [step for check, step in said.named.items() if check in about.roots and step >= row.start]
    since = min(roots, default=math.inf)
    got = _got(said, about)
    late = {c: step for c, step in said.named.items() if step >= row.start}
    return Judged(
        asked=asked,
        got=got,
        right=_right(asked, got, said, wrong, about),
        first_heard=bool(late) and min(late, key=lambda c: late[c]) in about.roots,
        wrong=wrong,
        ever=ever,
        early=sum(step < row.start for step, _ in said.alarms),
        delay=since - (row.start - 1),
        after_damage=since - row.damage if row.damage >= 0 else math.nan,
        saved=max(row.steps - said.stop, 0) / row.steps if said.stop >= row.start else 0.0,
        rollback=said.rollback <= row.damage if said.rollback >= 0 and row.damage >= 0 else None,
        rollback_strict=said.rollback < row.start if said.rollback >= 0 and row.start > 1 else None,
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
    if set(said.causes) & set(about.roots):
        return Got.BESIDE
    if set(said.watched) & set(about.roots):
        return Got.WATCHED
    return Got.OTHER if said.causes else Got.SILENT


def _right(asked: Asked, got: Got, said: Said, wrong: tuple[str, ...], about: About) -> bool:
    if said.error.startswith(FAILED):
        return False
    if asked is Asked.HIDDEN:
        return said.verdict == Verdict.CANNOT_SAY or not wrong
    if asked is Asked.QUIET:
        return {*said.causes, *(check for _, check in said.alarms)} <= set(about.allowed)
    return got is Got.FIRST
