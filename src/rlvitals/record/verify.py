"""Did a fix work? The runbook's items, each cause's own check and its own verification, before against after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rlvitals.check import Check, Clear, Fired, Verdict
from rlvitals.checks import CHECKS
from rlvitals.conclude import diagnose
from rlvitals.diagnosis import Cause, Diagnosis
from rlvitals.record.level import Earlier
from rlvitals.record.parts import joined, view_of
from rlvitals.record.standing import Standing, emerged, standing, watched
from rlvitals.record.statements import statement
from rlvitals.record.vitals import MIN_ROWS, Item, State, runbook_items, waiting
from rlvitals.schema import Run
from rlvitals.view import View


class Answer(StrEnum):
    """What can be said of a fix."""

    FIXED = "fixed"
    NOT_FIXED = "not fixed"
    TOO_EARLY = "too early"
    WORSE = "something else became worse"
    NOTHING_TO_FIX = "nothing to fix"


@dataclass(frozen=True, slots=True)
class Verification:
    """The answer, with every item that it rests on.

    Attributes:
        causes: what asked for a move before the fix; `worse`: what asks for one after it and did not before.
        active: what asks for one after it and is not surely new; `watch`: what was to be watched before and still is.
        steps_needed: rows more before the answer can be given, 0 when it is given.
    """

    name: str
    answer: Answer
    headline: str
    rows_after: int
    first_step_after: int
    causes: tuple[str, ...]
    worse: tuple[str, ...]
    active: tuple[str, ...]
    watch: tuple[str, ...]
    items: tuple[Item, ...]
    steps_needed: int


def verify(earlier: Run, later: Run) -> Verification:
    """Compare the rows before a fix with those after it.

    `earlier` ends where the fix was made, `later` begins there (`record.parts` cuts one run in two).
    """
    then, now, whole = diagnose(earlier), diagnose(later), diagnose(joined(earlier, later))
    causes = tuple(c for c in then.causes if c.asks_for_a_move)
    view, before = view_of(later), view_of(earlier)
    first = int(later.step[0])
    active = standing(then, now, whole, first)
    own = [*_own(causes, now, whole, view, before), *(_still(s, view) for s in active)]
    items = [*own, *runbook_items(view, before)]
    worse = tuple(f"{c.id} {c.name}" for c in emerged(then, now, whole, first, active))
    still_there = any(i.state is State.FAILS for i in own)
    old = (*causes, *active)
    answer, needed = _answer(bool(old), items, () if still_there else worse)
    names = tuple(f"{c.id} {c.name}" for c in causes)
    watch = watched(then, now, whole, [s.id for s in active])
    headline = _headline(answer, names, worse, items, needed)
    if answer is Answer.NOTHING_TO_FIX:
        headline = _nothing(then, watch, items)
    return Verification(
        name=later.name,
        answer=answer,
        headline=headline,
        rows_after=later.rows,
        first_step_after=first,
        causes=names,
        worse=worse,
        active=tuple(str(s) for s in active),
        watch=watch,
        items=tuple(items),
        steps_needed=needed,
    )


def _answer(faulty: bool, items: Sequence[Item], worse: Sequence[str]) -> tuple[Answer, int]:
    """Return the answer and the rows still needed; `faulty` when something asked for a fix before or may have."""
    failed = [i for i in items if i.state is State.FAILS]
    needed = max((i.steps_needed for i in items), default=0)
    if worse or (failed and not faulty):
        return Answer.WORSE, 0
    if failed:
        return Answer.NOT_FIXED, 0
    if not faulty:
        return Answer.NOTHING_TO_FIX, 0
    if needed:
        return Answer.TOO_EARLY, needed
    return Answer.FIXED, 0


def _headline(answer: Answer, causes: Sequence[str], worse: Sequence[str], items: Sequence[Item], needed: int) -> str:
    failed = [i.name for i in items if i.state is State.FAILS]
    blind = _blind(items)
    if answer is Answer.WORSE:
        return f"Something else became worse: {', '.join(worse or failed)}{blind}."
    if answer is Answer.NOT_FIXED:
        more = f"; new since then: {', '.join(worse)}" if worse else ""
        return f"Not fixed, what does not hold: {'; '.join(failed)}{more}{blind}."
    if answer is Answer.TOO_EARLY:
        return f"Too early: {needed} more rows are needed{blind}."
    return f"Fixed: {', '.join(causes)}{blind}."


def _nothing(then: Diagnosis, watch: Sequence[str], items: Sequence[Item]) -> str:
    before = "Nothing asked for a fix before that step"
    if then.verdict is Verdict.CANNOT_SAY:
        before = f"Too little was seen before that step to ask for a fix ({then.position.rows} rows)"
    more = f"; to watch before and still there: {', '.join(watch)}" if watch else ""
    return f"{before}, and nothing does after it{more}{_blind(items)}."


def _blind(items: Sequence[Item]) -> str:
    unseen = sum(i.state is State.NO_DATA for i in items)
    return f"; {unseen} item{'s' * (unseen > 1)} could not be looked at" if unseen else ""


def _still(found: Standing, view: View) -> Item:
    """Say that a fault is active after the fix, once there are rows enough to say so."""
    name = f"{found.id} {found.name} is gone"
    if view.rows < MIN_ROWS:
        return waiting(name, view.rows)
    return Item(name, State.FAILS, f"{found.finding.summary} ({found.why})")


def _own(causes: Sequence[Cause], now: Diagnosis, whole: Diagnosis, view: View, before: View) -> list[Item]:
    by_id: Mapping[str, Check] = {c.id: c for c in CHECKS}
    items = []
    for cause in causes:
        items.append(_check_again(cause, now, whole, view))
        wanted = by_id[cause.id].plan(cause.finding.variant).verify
        earlier = Earlier(before, cause.finding.onset)
        items.extend(statement(w, view, earlier) for w in wanted if w.metric)
    return items


def _check_again(cause: Cause, now: Diagnosis, whole: Diagnosis, view: View) -> Item:
    """Ask the check again: on the rows after the fix alone, and with what came before as its baseline."""
    name = f"{cause.id} {cause.name} is gone"
    if view.rows < MIN_ROWS:
        return waiting(name, view.rows)
    alone, again = now.outcomes.get(cause.id), whole.outcomes.get(cause.id)
    if isinstance(alone, Fired):
        return Item(name, State.FAILS, alone.finding.summary)
    if isinstance(again, Fired) and all(e.steps[1] >= view.first_step for e in again.finding.evidence):
        return Item(name, State.FAILS, again.finding.summary)
    if isinstance(again, Clear):
        return Item(name, State.HOLDS, again.because)
    if isinstance(alone, Clear):
        return Item(name, State.HOLDS, alone.because)
    return Item(name, State.NO_DATA, f"the check could not look at the {view.rows} rows after the fix")
