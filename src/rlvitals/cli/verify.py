"""`rlvitals verify`: did the fix work?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rlvitals.cli.answers import Format, Mapped, Out, SettingsFile, deliver, known_format
from rlvitals.cli.common import (
    Exit,
    leave,
    load_run,
    missing_paths,
    read_extras,
)
from rlvitals.errors import InputError, Problem

if TYPE_CHECKING:
    from rlvitals.record.verify import Verification
    from rlvitals.reference.page import Page

SINCE_HELP = "The first step after the fix, in one run."
BEFORE_HELP = "The run before the fix."
AFTER_HELP = "The run after the fix."


def verify(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="The run, with --since.")] = None,
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
    one, two = run is not None and since is not None, before is not None and after is not None
    if one == two or (two and (run is not None or since is not None)):
        found = "RUN without --since" if run is not None and since is None else "neither, or both"
        expected = "RUN --since STEP, or both --before RUN and --after RUN"
        problems.append(Problem("which rows come after the fix", "verify", found, expected))
    problems += missing_paths([p for p in (run, before, after) if p is not None])
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
        found_answer = compare(load_run([before or ""], extras), load_run([after or ""], extras))
    deliver(page(found_answer), found_answer, format, out)
    codes = {Answer.FIXED: Exit.OK, Answer.NOTHING_TO_FIX: Exit.OK, Answer.TOO_EARLY: Exit.CANNOT_SAY}
    leave(codes.get(found_answer.answer, Exit.FINDINGS))


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
        p.section("Items", p.Table(("", "what must hold", "what was seen"), rows)),
        p.section("New since the fix", p.Bullets(found.worse)),
    )
