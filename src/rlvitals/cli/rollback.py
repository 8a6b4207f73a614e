"""`rlvitals rollback`: which checkpoint to resume from, why, and how. Changes nothing."""

from __future__ import annotations

from pathlib import Path
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
from rlvitals.errors import InputError

if TYPE_CHECKING:
    from rlvitals.record.rollback import Advice
    from rlvitals.reference.page import Page


def rollback(
    path: Annotated[str, typer.Argument(metavar="RUN", help="The run's folder, with its log and checkpoints.")],
    format: Format = "terminal",
    out: Out = None,
    map_: Mapped = None,
    settings: SettingsFile = None,
) -> None:
    """Say which checkpoint to resume from, why that one, and the command for your trainer. Nothing is changed.

    Exit code 0: a complete checkpoint is named, or none is needed, as where the current weights are kept
    Exit code 2: wrong usage, or an input that cannot be read
    Exit code 3: a rollback is asked for and no complete checkpoint is known, or too little was seen to say
    """
    problems = missing_paths([path])
    known_format(format, problems)
    extras = read_extras(map_, None, settings, problems)
    if problems:
        raise InputError(*problems)
    from rlvitals.check import Rollback
    from rlvitals.conclude import diagnose
    from rlvitals.record.rollback import advise

    base = Path(path) if Path(path).is_dir() else Path(path).parent
    found = advise(diagnose(load_run([path], extras)), base, path)
    deliver(page(found), found, format, out)
    stay = found.kind in (Rollback.NONE.value, Rollback.CURRENT.value)
    leave(Exit.OK if stay or found.step is not None else Exit.CANNOT_SAY)


def page(found: Advice) -> Page:
    """Return the advice as a page."""
    from rlvitals.check import Rollback
    from rlvitals.reference import page as p
    from rlvitals.report.words import clean

    if found.kind == "unknown":
        return p.page(f"Rollback of {clean(found.name)}: cannot say", clean(f"{found.why}. {found.note}."))
    if found.kind == "none":
        return p.page(f"Rollback of {clean(found.name)}: not needed", clean(found.why))
    where = f"step {found.step}: {clean(found.path)}" if found.step is not None else "no complete checkpoint"
    if found.kind == Rollback.CURRENT.value:
        newest = f", the newest is {where}" if found.step is not None else ""
        where = f"stay at the current checkpoint{newest}"
    rows = tuple((str(x.step), clean(x.path), clean(x.why)) for x in found.passed)
    return p.page(
        f"Rollback of {clean(found.name)}: {where}",
        clean(f"{found.why}. {found.note}".strip()),
        p.section("The fault began", p.Paragraph(found.onset)),
        p.section("Resume with", p.Code(clean(found.command))),
        p.section("Change first", p.Bullets(tuple(clean(k) for k in found.knobs))),
        p.section("Passed over", p.Table(("step", "checkpoint", "why"), rows)),
    )
