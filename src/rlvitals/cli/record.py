"""`rlvitals record`: write the finding and the fix to the run's record, or list what was recorded."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlvitals.cli.answers import Format, Mapped, SettingsFile, deliver, known_format
from rlvitals.cli.common import (
    load_run,
    missing_paths,
    one_of,
    read_extras,
)
from rlvitals.errors import InputError, Problem

if TYPE_CHECKING:
    from rlvitals.record.entry import Entry, Fix
    from rlvitals.reference.page import Page

FIX_PANEL = "The fix"
NO_TASK = (
    "rlvitals: the run's config names no task, so it is recorded as unknown. Name it with --task NAME, and for coming "
    'runs in rlvitals.toml: [config.versions] task = "NAME"'
)
OUTCOMES = ("fixed", "not fixed", "too early", "something else became worse", "open")


Fixed = Annotated[
    str,
    typer.Option(
        "--fix",
        metavar="KNOB=FROM->TO",
        help="The setting that was changed, from what to what.",
        rich_help_panel=FIX_PANEL,
    ),
]
Said = Annotated[
    str, typer.Option("--note", metavar="TEXT", help="What was done, in words.", rich_help_panel=FIX_PANEL)
]
From = Annotated[
    str,
    typer.Option(
        "--checkpoint",
        metavar="PATH",
        help="Where it is resumed; the rollback target when left out.",
        rich_help_panel=FIX_PANEL,
    ),
]
Task = Annotated[
    str,
    typer.Option(
        "--task",
        metavar="NAME",
        help="Task under which the next run finds this; the one in its config when left out, else unknown.",
        rich_help_panel=FIX_PANEL,
    ),
]
Went = Annotated[
    str,
    typer.Option(
        "--outcome",
        metavar="OUTCOME",
        help="How the fix went, with --entry: " + ", ".join(OUTCOMES) + ".",
        rich_help_panel=FIX_PANEL,
    ),
]
Number = Annotated[
    int | None,
    typer.Option("--entry", metavar="N", help="The entry that --outcome is about.", rich_help_panel=FIX_PANEL),
]
ALSO_HELP = "Write it there too: mlflow:RUN_ID, wandb:PROJECT/RUN_ID or trackio:PROJECT/NAME. Repeatable."
Also = Annotated[list[str] | None, typer.Option("--also", metavar="TRACKER:RUN", help=ALSO_HELP)]


def record(
    path: Annotated[str, typer.Argument(metavar="RUN", help="A run; with --list also a folder of runs.")],
    list_: Annotated[bool, typer.Option("--list", help="Show runs, findings, fixes and outcomes.")] = False,
    fix: Fixed = "",
    note: Said = "",
    checkpoint: From = "",
    task: Task = "",
    outcome: Went = "",
    entry: Number = None,
    also: Also = None,
    format: Format = "terminal",
    map_: Mapped = None,
    settings: SettingsFile = None,
) -> None:
    """Record a finding and its fix beside the run, so that the next run on this task and model starts from it.

    Exit code 0: written, or listed
    Exit code 2: wrong usage, an input that cannot be read, or a record that cannot be written
    """
    problems = missing_paths([path])
    known_format(format, problems)
    change = _fix(fix, note, problems)
    if outcome:
        one_of(outcome, OUTCOMES, "--outcome", problems)
    if bool(outcome) != (entry is not None):
        problems.append(Problem("half a pair", "--outcome and --entry", "one of them", "both or none"))
    extras = read_extras(map_, None, settings, problems)
    if problems:
        raise InputError(*problems)
    from rlvitals.record import store

    if list_:
        entries = [e for file in _records(Path(path)) for e in store.read(file)]
        from rlvitals.record.entry import Entries

        deliver(page(f"Record of {path}", entries), Entries(tuple(entries)), format, None)
        return
    if entry is not None:
        from rlvitals.record.entry import Outcome

        done = store.set_outcome(store.record_file(Path(path)), entry, Outcome(outcome))
    else:
        from rlvitals.conclude import diagnose
        from rlvitals.record.entry import entry_of
        from rlvitals.record.lessons import UNKNOWN, task_of

        run = load_run([path], extras)
        about = task_of(run, task)
        done = store.add(store.record_file(Path(path)), entry_of(diagnose(run), about, change, checkpoint))
        if about == UNKNOWN:
            print(NO_TASK, file=sys.stderr)
        _write_also(done, also or ())
    deliver(page(f"Recorded as entry {done.id} in {store.record_file(Path(path))}", [done]), done, format, None)


def _fix(text: str, note: str, problems: list[Problem]) -> Fix:
    from rlvitals.record.entry import Fix

    knob, sign, change = text.partition("=")
    before, arrow, after = change.partition("->")
    if text and not (sign and arrow and knob.strip() and after.strip()):
        problems.append(Problem("not a change", "--fix", repr(text), "KNOB=FROM->TO, e.g. beta=0->0.04"))
    return Fix(knob.strip(), before.strip(), after.strip(), note)


def _records(path: Path) -> tuple[Path, ...]:
    """Return the records of a run, or of every run in a folder. Raises InputError when there is none."""
    from rlvitals.record import store

    found = store.below(path) if path.is_dir() else ()
    own = store.record_file(path)
    found = found or ((own,) if own.is_file() else ())
    if not found:
        raise InputError(Problem("no run record", str(path), hint="Write one with: rlvitals record RUN"))
    return found


def _write_also(entry: Entry, places: list[str] | tuple[str, ...]) -> None:
    if places:
        from rlvitals.record.trackers import write

        for place in places:
            write(place, entry)


def page(title: str, entries: list[Entry]) -> Page:
    """Return recorded entries as a page, oldest first."""
    from rlvitals.reference import page as p
    from rlvitals.report.words import clean

    head = ("entry", "when", "run", "task", "model", "verdict", "finding", "since", "fix", "resume from", "outcome")
    rows = tuple(
        tuple(
            clean(str(cell))
            for cell in (
                e.id, e.when[:16], e.run, e.task, e.model, e.verdict, f"{e.check} {e.finding}".strip(), e.onset,
                e.fix, e.checkpoint, e.outcome.value,
            )
        )
        for e in entries
    )  # fmt: skip
    return p.page(clean(title), "", p.section("Entries", p.Table(head, rows)))
