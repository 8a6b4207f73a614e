"""focus(): the same diagnosis, showing only what was active or began at a step or later."""

from __future__ import annotations

from dataclasses import replace

from rlvitals.check import MOVES, VERDICT_OF, Verdict
from rlvitals.conclude import headline
from rlvitals.diagnosis import Cause, Diagnosis
from rlvitals.engine import Incident
from rlvitals.errors import InputError, Problem

_ORDER = (Verdict.HEALTHY, Verdict.WATCH, Verdict.ACT, Verdict.STOP)


def focus(diagnosis: Diagnosis, since: int) -> Diagnosis:
    """Return the diagnosis without what was over before `since`; its outcomes and baselines are untouched.

    A cause that asks for a move is never hidden: it is active now, however long ago it began.

    Raises:
        InputError: the run ends before that step.
    """
    last = diagnosis.position.last_step
    if since > last:
        found = f"the last step is {last}"
        raise InputError(Problem("nothing to show", f"--since {since}", found, f"a step up to {last}"))
    causes = tuple(c for c in diagnosis.causes if c.asks_for_a_move or _last_step(c) >= since)
    notes = tuple(c for c in diagnosis.notes if _last_step(c) >= since)
    incidents = tuple(i for i in diagnosis.incidents if i.closed is None or i.closed >= since)
    if (causes, notes, incidents) == (diagnosis.causes, diagnosis.notes, diagnosis.incidents):
        return diagnosis
    verdict = _verdict(diagnosis, causes, incidents)
    kept = {c.id for c in causes}
    return replace(
        diagnosis,
        causes=causes,
        notes=notes,
        incidents=incidents,
        verdict=verdict,
        headline=diagnosis.headline if verdict is Verdict.CANNOT_SAY else headline(verdict, "", causes, incidents),
        plan=tuple(s for s in diagnosis.plan if s.cause in kept or (not s.cause and (causes or not diagnosis.causes))),
        held_back=tuple(h for h in diagnosis.held_back if h.cause in kept),
    )


def _last_step(cause: Cause) -> int:
    """Return the last step that a cause or one of its consequences is based on."""
    findings = (cause.finding, *(c.finding for c in cause.consequences))
    return max(max(f.onset.last, *(e.steps[1] for e in f.evidence)) for f in findings)


def _verdict(diagnosis: Diagnosis, causes: tuple[Cause, ...], incidents: tuple[Incident, ...]) -> Verdict:
    if diagnosis.verdict is Verdict.CANNOT_SAY:
        return Verdict.CANNOT_SAY
    worst = Verdict.HEALTHY
    for cause in causes:
        for action in (cause.action, *(c.finding.action for c in cause.consequences)):
            worst = max(worst, VERDICT_OF[action], key=_ORDER.index)
    if worst is Verdict.HEALTHY and any(i.finding.action in MOVES for i in incidents):
        return Verdict.WATCH
    return worst
