"""What is wrong after a fix that nothing asked to mend before it: only the whole run shows it, or no one could look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlvitals.check import Clear, Finding, Fired
from rlvitals.diagnosis import Cause, Diagnosis


@dataclass(frozen=True, slots=True)
class Standing:
    """A fault after the fix that is not surely new.

    Attributes:
        why: what is known of the time before the fix, in words.
    """

    id: str
    name: str
    finding: Finding
    why: str

    def __str__(self) -> str:
        return f"{self.id} {self.name}, {self.why}"


def standing(then: Diagnosis, now: Diagnosis, whole: Diagnosis, first: int) -> tuple[Standing, ...]:
    """Return the faults that ask for a move after step `first` and did not before, and are not surely new since then.

    One that needs the whole run to be told (a slow fall, a drift) is active where its evidence reaches past the fix.
    Where another fault was mended then, it must surely have begun before: mending moves series too. One whose check
    could not look before the fix may have been there all along.
    """
    asked = _asked(then)
    found = {}
    for cause in whole.causes:
        began = (cause.onset.last if asked else cause.onset.first) < first
        if cause.asks_for_a_move and began and cause.id not in asked and _reaches(cause.finding, first):
            found[cause.id] = Standing(
                cause.id, cause.name, cause.finding, _dated(cause.finding, then, cause.id, first)
            )
    for cause in now.causes:
        if not cause.asks_for_a_move or cause.id in asked | found.keys():
            continue
        again = whole.outcomes.get(cause.id)
        if isinstance(again, Fired) and again.finding.onset.last < first:
            why = _dated(again.finding, then, cause.id, first)
        elif not isinstance(then.outcomes.get(cause.id), Fired | Clear):
            why = f"which could not be looked at before step {first}"
        else:
            continue
        found[cause.id] = Standing(cause.id, cause.name, cause.finding, why)
    return tuple(found.values())


def emerged(
    then: Diagnosis, now: Diagnosis, whole: Diagnosis, first: int, active: Sequence[Standing]
) -> tuple[Cause, ...]:
    """Return the causes that ask for a move after the fix and are surely new; `active` are those that are not.

    Where nothing asked for a fix, what only the whole run shows counts too: no mended fault can be mistaken for it.
    """
    old = {s.id for s in active}
    known = {i for c in then.causes for i in (c.id, *(q.id for q in c.consequences))} | old
    later = [c for c in now.causes if c.asks_for_a_move and c.id not in known]
    if not _asked(then):
        seen = {c.id for c in later} | old
        later += [
            c
            for c in whole.causes
            if c.asks_for_a_move and c.id not in seen and c.onset.first >= first and _reaches(c.finding, first)
        ]
    return tuple(later)


def watched(then: Diagnosis, now: Diagnosis, whole: Diagnosis, named: Sequence[str]) -> tuple[str, ...]:
    """Return what was only to be watched before the fix and is found after it too; `named` are ids said elsewhere."""
    both = [c for c in then.causes if not c.asks_for_a_move and c.id not in named]
    return tuple(f"{c.id} {c.name}" for c in both if any(isinstance(d.outcomes.get(c.id), Fired) for d in (now, whole)))


def _asked(then: Diagnosis) -> set[str]:
    """Return the ids of what asked for a move before the fix, with what it led to."""
    return {i for c in then.causes if c.asks_for_a_move for i in (c.id, *(q.id for q in c.consequences))}


def _reaches(finding: Finding, first: int) -> bool:
    return any(e.steps[1] >= first for e in finding.evidence)


def _dated(finding: Finding, then: Diagnosis, check: str, first: int) -> str:
    before = "only to be watched" if isinstance(then.outcomes.get(check), Fired) else "not yet sure"
    return f"since {finding.onset}; {before} at step {first}"
