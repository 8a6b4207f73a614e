"""Where to roll back to, with the files looked at: the newest complete checkpoint, why, and how to resume from it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from rlvitals.check import Rollback
from rlvitals.diagnosis import Cause, Diagnosis
from rlvitals.ingest.checkpoint_files import problems
from rlvitals.record.resume_commands import resume_command
from rlvitals.rollback import no_step_log, unseen
from rlvitals.schema import Event, EventKind

UNKNOWN = "unknown"  # kind of an advice that cannot be given
STAY = "No complete checkpoint is known here: save one before you stop the run, and resume from the newest one."


@dataclass(frozen=True, slots=True)
class Passed:
    """A checkpoint that was passed over."""

    step: int
    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Advice:
    """The checkpoint to resume from. Nothing is changed by anyone but the user.

    Attributes:
        kind: of the target (`Rollback`), or "unknown" where too little was seen to say that none is needed.
        step, path: None and "" when none is complete; `wanted` is the step that the diagnosis asks for.
        knobs: what to change before resuming, in the trainer's words.
    """

    name: str
    kind: str
    step: int | None
    path: str
    wanted: int | None
    why: str
    onset: str
    command: str
    knobs: tuple[str, ...]
    passed: tuple[Passed, ...]
    note: str


def advise(diagnosis: Diagnosis, base: Path, given: str = "RUN") -> Advice:
    """Return where to roll a diagnosed run back to; `base` is the run's folder, against which paths are relative.

    `given` is the run as the user named it, for the commands to type next.
    """
    target, run = diagnosis.rollback, diagnosis.run
    cause = next(iter(diagnosis.causes), None)
    onset = str(cause.onset) if cause is not None else ""
    knobs = tuple(f"{s.knob}: {s.move}" if s.move else s.knob for s in diagnosis.plan if s.knob)
    events = run.events if run is not None else ()
    known = sorted(
        (e for e in events if e.kind is EventKind.CHECKPOINT and e.step is not None), key=lambda e: e.step or 0
    )
    if target.kind is Rollback.NONE:
        missing = unseen(diagnosis)
        kind, why = (UNKNOWN, missing) if missing else (target.kind.value, target.reason)
        note = _what_to_give(diagnosis, bool(known), given) if missing else ""
        return Advice(diagnosis.name, kind, None, "", None, why, onset, "", knobs, (), note)
    limit = target.step if target.step is not None else (known[-1].step if known else None)
    chosen, passed = _newest_whole([e for e in known if limit is None or (e.step or 0) <= limit], base)
    passed = (*passed, *_later(known, limit, cause))
    trainer = diagnosis.trainer
    if chosen is None:
        first = int(run.step[0]) if run is not None and run.step.size else 0
        note = _none_there(bool(known), start=target.step is not None and target.step < first)
        if target.kind is Rollback.CURRENT:
            note = STAY
        return Advice(
            diagnosis.name, target.kind.value, None, "", target.step, target.reason, onset, "", knobs, passed, note
        )
    step = chosen.step or 0
    command = resume_command(trainer, chosen.path, step)
    return Advice(
        diagnosis.name,
        target.kind.value,
        step,
        chosen.path,
        target.step,
        target.reason,
        onset,
        command,
        knobs,
        passed,
        chosen.detail,
    )


def _none_there(known: bool, *, start: bool) -> str:
    """Return what to do where no complete checkpoint is early enough, in words."""
    if start:
        return "Start anew from the weights that the run began with."
    if known:
        return "No complete checkpoint lies at or before that step."
    return "No checkpoint is known here: name the folder that holds them as the run, or roll back by hand."


def _what_to_give(diagnosis: Diagnosis, checkpoints: bool, given: str) -> str:
    """Return which files would tell, in words."""
    if not no_step_log(diagnosis):
        return f"See what is missing: rlvitals check {shlex.quote(given)}"
    more = "" if checkpoints else ", and its checkpoints (none is known here)"
    return (
        "Give the run's folder, with what the trainer logs per step (such as trainer_state.json or metrics.jsonl)"
        f"{more}: rlvitals rollback FOLDER"
    )


def _newest_whole(candidates: list[Event], base: Path) -> tuple[Event | None, tuple[Passed, ...]]:
    passed: list[Passed] = []
    for event in reversed(candidates):
        why = "" if event.complete else (event.detail or "incomplete")
        path = base / event.path
        if not why and path.exists():
            why = "; ".join(problems(path)[:3])
        if not why:
            return event, tuple(passed)
        passed.append(Passed(event.step or 0, event.path, why))
    return None, tuple(passed)


def _later(known: list[Event], limit: int | None, cause: Cause | None) -> tuple[Passed, ...]:
    """Return the checkpoints after the chosen step: before the fault they are only no better held-out."""
    if limit is None:
        return ()
    began = cause.onset.first if cause is not None else limit + 1
    later = [(e.step or 0, e.path) for e in known if (e.step or 0) > limit]
    before = "before the fault, and no better by the held-out score"
    return tuple(Passed(step, path, before if step < began else "after the fault began") for step, path in later[:8])
