"""Train a fault in front of the user: noticed, named, mended, and the mending verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlvitals.conclude import diagnose
from rlvitals.diagnosis import Diagnosis
from rlvitals.errors import InputError, Problem
from rlvitals.ingest import load
from rlvitals.lab.cases import Case, ends_too_early
from rlvitals.lab.compared import beside
from rlvitals.lab.crash import Crash, crash_of, is_no_result
from rlvitals.lab.fault import Fault, Healthy, Strength
from rlvitals.lab.recording import Recorder
from rlvitals.lab.run import ASKED, last_step
from rlvitals.lab.screen import Screen
from rlvitals.lab.watching import Noticed, Watching
from rlvitals.record.verify import Answer, Verification, verify
from rlvitals.record.vitals import State
from rlvitals.report.words import clean
from rlvitals.schema import Run

if TYPE_CHECKING:
    from rlvitals.grpo.config import Config
    from rlvitals.grpo.parts import Parts

STEPS = 120  # at most, where the fault asks for no other number (about a minute for both runs on one core)
FIXED_STEPS = 40  # at least, of the run with the fix: verification needs 20 rows and three held-out scores
MAX_STEPS = 100_000
GOOD, BAD, EARLY = 0, 1, 3  # exit codes, as everywhere in rlvitals
STOPPED = 130  # the same, of what Ctrl-C ended
EARLIER = "mended-of-an-earlier-call"


def show(
    subject: Fault | Healthy, strength: str, seed: int, steps: int, folder: Path, record: Path | None = None
) -> int:
    """Train with the fault until it is noticed, then without it, and say whether that helped; return the exit code.

    `record` is a file to keep what was shown in. Raises InputError for a healthy run, an unknown strength, a fault that
    cannot be put in and a trainer that dies before its first logged step.
    """
    case = _case(subject, strength, seed, min(steps, MAX_STEPS))
    assert isinstance(case.subject, Fault)
    assert case.strength is not None
    about: dict[str, str | int] = {"fault": case.subject.name, "strength": case.strength.name, "seed": seed}
    screen = Screen() if record is None else Recorder(**about)
    code = _show(case, case.subject, case.strength, folder / case.subject.name, screen)
    if code == STOPPED:
        return code
    if isinstance(screen, Recorder) and record is not None:
        screen.write(record)
    return code


@dataclass(frozen=True, slots=True)
class Trained:
    """How a run that was shown ended.

    Attributes:
        noticed: what asked for a move, None for nothing; crash: of the trainer, None for none.
        stopped: the last step, where the user stopped it, else -1.
    """

    noticed: Noticed | None
    crash: Crash | None = None
    stopped: int = -1


def _show(case: Case, fault: Fault, strength: Strength, folder: Path, screen: Screen) -> int:
    screen.title(f"1. Break it: {fault.name}, {strength.name}")
    screen.text(f"{fault.broken} ({fault.place.value}, from step {fault.start})")
    broken, mended = folder / "broken", folder / "mended"
    _set_aside(mended)
    made = _train(case, broken, screen, fault)
    if made.stopped >= 0:
        return _stopped(made.stopped, screen)
    if made.crash is not None:
        screen.text(f"The run {made.crash}", "bold red")
        if is_no_result(made.crash, fault, broken=True):
            screen.text(
                "That is a mistake in the code of the fault, or of what it returns: there is nothing to diagnose."
            )
            return BAD
    if made.noticed is None and made.crash is None:
        screen.text("Nothing asked for a move until the last step.")
    screen.title("2. The diagnosis")
    before = _logged(broken, fault)
    found = diagnose(before)
    screen.report(replace(found, blind_spots=(), ruled_out=(), notes=()))  # the whole report is one command away
    _said_right(fault, found, screen)
    if made.noticed is None:
        return BAD
    screen.title("3. Mend it and train again")
    screen.text(fault.fix)
    length = max(int(before.step[-1]), FIXED_STEPS)
    again = _train(replace(case, strength=None, steps=length), mended, screen, None)
    if again.stopped >= 0:
        return _stopped(again.stopped, screen)
    if again.crash is not None:
        screen.text(f"The run with the fix {again.crash}", "bold red")
        return BAD
    after = _logged(mended, fault)
    screen.title("4. Did it help?")
    screen.table(*beside(before, after))
    checked = verify(before, after)
    _verified(checked, screen)
    screen.here(f"Both runs are in {folder}; look at them: rlvitals check {broken}")
    return {Answer.FIXED: GOOD, Answer.NOTHING_TO_FIX: GOOD, Answer.TOO_EARLY: EARLY}.get(checked.answer, BAD)


def _stopped(step: int, screen: Screen) -> int:
    """Say that the user stopped a run: what needs the whole run is not said of half of it."""
    screen.text(f"stopped by you at step {step}", "bold")
    return STOPPED


def _set_aside(mended: Path) -> None:
    """Rename the mended run of an earlier call: beside a new broken one it would be taken for that one's."""
    if mended.is_dir():
        import shutil

        older = mended.with_name(EARLIER)
        shutil.rmtree(older, ignore_errors=True)  # made here too, by the call before
        mended.rename(older)


def _logged(folder: Path, fault: Fault) -> Run:
    """Return what a run logged. Raises InputError where it logged nothing."""
    try:
        found = load(folder)
    except InputError as error:
        raise InputError(_nothing_logged(folder, fault)) from error
    if not found.rows:
        raise InputError(_nothing_logged(folder, fault))
    return found


def _nothing_logged(folder: Path, fault: Fault) -> Problem:
    return Problem("the run logged no step, so there is nothing to diagnose", fault.name, f"an empty log in {folder}",
                   "a fault that lets the trainer log a few steps")  # fmt: skip


def _case(subject: Fault | Healthy, strength: str, seed: int, steps: int) -> Case:
    if isinstance(subject, Healthy):
        raise InputError(Problem("nothing is broken in this run", "rlvitals lab show", subject.name, "a fault"))
    known = {s.name: s for s in subject.strengths}
    if strength and strength not in known:
        raise InputError(
            Problem("the fault has no such strength", "--strength", repr(strength[:80]), " or ".join(known))
        )
    chosen = known[strength] if strength else subject.strengths[0]
    length = steps or subject.steps or STEPS
    if length < subject.start:
        raise InputError(ends_too_early(subject, length))
    return Case(subject, chosen, seed, steps=length)


def _train(case: Case, folder: Path, screen: Screen, fault: Fault | None) -> Trained:
    """Train a case; return what was noticed. The run ends soon after that."""
    import shutil

    from rlvitals.grpo.loop import train
    from rlvitals.grpo.parts import settle

    config, parts = _setup(case)
    settle(config)
    _only_a_folder(folder)
    shutil.rmtree(folder, ignore_errors=True)
    roots = frozenset(fault.named) if fault is not None else frozenset()
    watching = Watching(config.steps, screen, roots, stops=fault is not None, start=fault.start if fault else 1)
    try:
        with watching:
            ended = train(config, parts, folder=folder, watch=[watching])
    except Noticed as noticed:
        return Trained(noticed)
    except InputError:
        raise
    except Exception as error:  # a fault may well bring the trainer down: what was logged is diagnosed
        return Trained(watching.noticed, crash_of(error, case.subject, last_step(folder)))
    return Trained(watching.noticed, stopped=ended.steps if ended.reason.startswith(ASKED) else -1)


def _only_a_folder(folder: Path) -> None:
    """Refuse a folder that cannot be one: a part of its path is a file. Raises InputError."""
    for part in (folder, *folder.parents):
        if part.exists():
            if not part.is_dir():
                raise InputError(
                    Problem("not a folder", "--out", f"the file {part}", "a folder, or a name that is free")
                )
            return


def _setup(case: Case) -> tuple[Config, Parts]:
    """Return the setup with evaluations often enough for a short run."""
    config, parts = case.setup()
    return replace(config, eval_every=min(config.eval_every, 5)), parts  # 0 stays 0: a fault may leave them out


def _said_right(fault: Fault, found: Diagnosis, screen: Screen) -> None:
    moving = [c.id for c in found.causes if c.asks_for_a_move]
    if not fault.named:
        screen.text("No check can name this root cause from the log.")
    elif moving and moving[0] in fault.roots:
        screen.text(f"The lab knows what was broken: {moving[0]} is right.")
    elif moving and moving[0] in fault.signs:
        screen.text(f"The lab knows what was broken: {moving[0]} is its direct sign.")
    else:
        named = f"{moving[0]} came first" if moving else "nothing was named"
        screen.text(f"The lab knows what was broken: it should have been {' or '.join(fault.named)}, and {named}.")


def _verified(found: Verification, screen: Screen) -> None:
    screen.text(found.headline)
    mark: Mapping[State, str] = {State.HOLDS: "holds", State.FAILS: "fails", State.TOO_EARLY: "early"}
    rows = [(mark[i.state], clean(i.name), clean(i.text)) for i in found.items if i.state in mark]
    screen.table(("", "what must hold", "what was seen"), rows)
