"""trackio: one row of text fields in the run, and an alert that shows it on the dashboard."""

from __future__ import annotations

from typing import Any

from rlvitals.errors import InputError, Problem
from rlvitals.record.entry import Entry
from rlvitals.record.trackers.fields import PREFIX, flat


def write(run: str, entry: Entry) -> None:
    """Write to PROJECT/NAME, a run that is there or a new one. Raises InputError without trackio."""
    try:
        import trackio
    except ImportError as error:
        raise InputError(Problem("trackio is not installed", hint="pip install trackio")) from error
    project, sign, name = run.partition("/")
    if not (project and sign and name):
        raise InputError(Problem("not a trackio run", "--also", repr(f"trackio:{run}"), "trackio:PROJECT/NAME"))
    found = flat(entry)
    opened: Any = trackio.init(project=project, name=name, resume="allow")
    try:
        opened.log({f"{PREFIX}/{key}": value for key, value in found.items()})
        opened.alert(title=f"{PREFIX}: {found.get('finding', entry.verdict)}", text=entry.headline)
    finally:
        opened.finish()
