"""`rlvitals verify`: did the fix work?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from rlvitals.cli.answers import Format, Mapped, Out, SettingsFile, deliver, known_format
from rlvitals.cli.common import (
    Exit,
    Extras,
    leave,
    load_run,
    missing_paths,
    read_extras,
)
from rlvitals.errors import InputError, Problem

if TYPE_CHECKING:
    from rlvitals.record.verify import Verification
    from rlvitals.reference.page import Page
    from rlvitals.schema import Run

SINCE_HELP = "The first step after the fix, in one run."
BEFORE_HELP = "The run before the fix."
AFTER_HELP = "The run after the fix."
EXPECTED = "RUN --since STEP, or both --before RUN and --after RUN"


def verify(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]", help="The run, with --since.")] = None,
    since: Annotated[int | None, typer.Option("--since", metavar="STEP", min=0, help=SINCE_HELP)] = None,
    before: Annotated[str | None, typer.Option("--before", metavar="RUN", help=BEFORE_HELP)] = None,
    after: Annotated[str | None, typer.Option("--after", metavar="RUN", help=AFTER_HELP)] = None,
    format: Format = "terminal",
    out: Out = None,
    map_: Mapped = None,
    settings: SettingsFile = None,
) -> None:
    """Say whether a fix worked: every verification item of the runbook, and the finding's own.

    Exit code 0: fixed, or nothing to fix
    Exit code 1: not fixed, or something else became worse
    Exit code 2: wrong usage, or an input that cannot be read
    Exit code 3: too early to say
    """
    problems: list[Problem] = []
    known_format(format, problems)
    run = runs[0] if runs else None
    problems += _too_many(runs) if runs and len(runs) > 1 else _usage(run, since, before, after)
    problems += missing_paths(runs or [])
    for option, path in (("--before", before), ("--after", after)):
        if path is not None:
            problems += [_of(option, path, p, after) for p in missing_paths([path])]
    extras = read_extras(map_, None, settings, problems)
    if problems:
        raise InputError(*problems)
    from rlvitals.record.parts import after as rows_after
    from rlvitals.record.parts import before as rows_before
    from rlvitals.record.verify import Answer
    from rlvitals.record.verify import verify as compare

    if run is not None and since is not None:
        whole = load_run([run], extras)
        found_answer = compare(rows_before(whole, since), rows_after(whole, since))
    else:
        found_answer = compare(*_both(before or "", after or "", extras))
    deliver(page(found_answer), found_answer, format, out)
    codes = {Answer.FIXED: Exit.OK, Answer.NOTHING_TO_FIX: Exit.OK, Answer.TOO_EARLY: Exit.CANNOT_SAY}
    leave(codes.get(found_answer.answer, Exit.FINDINGS))


def _too_many(runs: Sequence[str]) -> list[Problem]:
    """Return the problem of runs that are named without saying which is which, with the command that was meant."""
    first, second = runs if len(runs) == 2 else ("RUN", "RUN")
    hint = f"Say which is which: rlvitals verify --before {first} --after {second}"
    return [Problem("one run at most without an option", "verify", f"{len(runs)} runs", EXPECTED, hint)]


def _usage(run: str | None, since: int | None, before: str | None, after: str | None) -> list[Problem]:
    """Return what is wrong with the way the two parts are named, with the command that was perhaps meant."""
    given = {"RUN": run, "--since": since, "--before": before, "--after": after}
    names = tuple(name for name, value in given.items() if value is not None)
    if names in (("RUN", "--since"), ("--before", "--after")):
        return []
    hint = {
        ("RUN",): f"Say when the fix was made: rlvitals verify {run} --since STEP",
        ("RUN", "--before"): f"Try: rlvitals verify --before {before} --after {run}",
        ("RUN", "--after"): f"Try: rlvitals verify --before {run} --after {after}",
        ("--before",): f"Name the run after it too: rlvitals verify --before {before} --after RUN",
        ("--after",): f"Name the run before it too: rlvitals verify --before RUN --after {after}",
        ("--since",): f"Name the run: rlvitals verify RUN --since {since}",
    }.get(names, "")
    return [Problem("which rows come after the fix", "verify", " and ".join(names) or "neither", EXPECTED, hint)]


def _of(option: str, path: str, problem: Problem, after: str | None) -> Problem:
    """Return a problem of one of the two runs with the option that named it, and the other way to ask."""
    one = f"If both parts are in one run: rlvitals verify {after or 'RUN'} --since STEP"
    hint = ". ".join(h for h in (problem.hint.rstrip("."), one) if h)
    return replace(problem, where=f"{option} {problem.where or path}", hint=hint)


def _both(before: str, after: str, extras: Extras) -> tuple[Run, Run]:
    """Return the run before a fix and the one after it. Raises InputError with every problem of both."""
    from rlvitals.record.parts import in_order

    runs: list[Run] = []
    problems: list[Problem] = []
    for option, path in (("--before", before), ("--after", after)):
        try:
            runs.append(load_run([path], extras))
        except InputError as error:
            problems += [_of(option, path, p, after) for p in error.problems]
    if problems:
        raise InputError(*problems)
    in_order(runs[0], runs[1], (before, after))
    return runs[0], runs[1]


def page(found: Verification) -> Page:
    """Return the answer as a page."""
    from rlvitals.reference import page as p
    from rlvitals.report.words import clean

    rows = tuple((i.state.value, i.name, clean(i.text)) for i in found.items)
    lead = f"{found.headline} {found.rows_after} rows from step {found.first_step_after} on."
    return p.page(
        f"Verify {clean(found.name)}: {found.answer.value}",
        lead,
        p.section("Before the fix", p.Bullets(found.causes)),
        p.section(
            "Active after it, and not asked to be fixed before", p.Bullets(tuple(clean(a) for a in found.active))
        ),
        p.section("To watch, before it and still", p.Bullets(found.watch)),
        p.section("Items", p.Table(("", "what must hold", "what was seen"), rows)),
        p.section("New since the fix", p.Bullets(found.worse)),
    )
