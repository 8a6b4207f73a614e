"""What preflight and the audits share: their options, the record that they write, the page that they print."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlvitals.cli.common import one_of, pairs
from rlvitals.errors import InputError, Problem

if TYPE_CHECKING:
    from rlvitals.audit.rows import Rows
    from rlvitals.auditresults import Audit

ROLE_HELP = "Say what a key of the file is: COLUMN=KEY, e.g. reward=score. Repeatable."
RUN_HELP = "Run directory: the record goes to its .rlvitals/, where check reads it. Without it: beside the input."
FORMATS = ("terminal", "json")

Map = Annotated[list[str] | None, typer.Option("--map", metavar="COLUMN=KEY", help=ROLE_HELP)]
RunDir = Annotated[Path | None, typer.Option("--run", metavar="DIR", help=RUN_HELP)]
Format = Annotated[str, typer.Option("--format", "-f", metavar="FORMAT", help="terminal or json.")]
Seconds = Annotated[float, typer.Option("--seconds", metavar="S", min=0.1, help="Time limit of one call or episode.")]
Memory = Annotated[
    int, typer.Option("--memory", metavar="MB", min=64, help="Memory beyond what importing the code takes.")
]


def options(map_: Sequence[str] | None, format: str, *more: Problem) -> dict[str, str]:
    """Return the column map of --map. Raises InputError with what is wrong with it, with --format and `more`."""
    problems = list(more)
    one_of(format, FORMATS, "--format", problems)
    mapping = pairs(map_ or (), "--map", "COLUMN=KEY", problems)
    if problems:
        raise InputError(*problems)
    return mapping


def read_rollouts(path: Path, mapping: Mapping[str, str]) -> Rows:
    """Return the rollouts of a dump or a file, with what a log beside them tells. Raises InputError."""
    from rlvitals.audit.load import load_rollouts
    from rlvitals.ingest.directory import places_in
    from rlvitals.ingest.trajectories import with_log

    places_in(path)  # refuses a set of runs
    try:
        found = load_rollouts(path, mapping, with_log)
    except InputError as error:
        if (problem := _only_a_log(path)) is not None:
            raise InputError(problem) from error
        raise
    bare = not mapping and not any(r.messages or r.completion is not None for r in found.rows)
    if bare and (problem := _only_a_log(path)) is not None:
        raise InputError(problem)
    return found


def _only_a_log(path: Path) -> Problem | None:
    """Return what to say of a known trainer's log without rollouts, None for anything else."""
    from rlvitals.ingest import load

    try:
        run = load(path, rollouts=False)
    except InputError:
        return None
    how = run.trainer.how_to_log.get("rollouts")
    if not run.rows or how is None:  # rows of a trainer that is not known may be anything
        return None
    steps = f"{run.rows} row{'s' * (run.rows != 1)} of means per step"
    return Problem(
        f"this is a log of {run.trainer.name} without rollouts", str(path), steps, "the rollouts, one by one",
        f"Log them: {how}",
    )  # fmt: skip


def record_folder(run: Path | None, given: Path | None) -> Path:
    """Return the folder of records: of the run, else beside the input."""
    from rlvitals.auditresults import folder_of

    if run is not None and not run.exists():
        raise InputError(Problem("no such run", f"--run {run}"))
    return folder_of(run or given or Path())


def finish(record: Audit, folder: Path, format: str) -> None:
    """Write a record, and print it as a page or as JSON."""
    from rlvitals.auditresults import write

    path = write(record, folder)
    if format == "json":
        print(path.read_text(encoding="utf-8"), end="")
    else:
        from rlvitals.cli.auditpages import page_of
        from rlvitals.cli.show import show

        show(page_of(record))
    print(f"Wrote {path}; rlvitals check reads it.", file=sys.stderr)


def say(notes: Sequence[str]) -> None:
    """Print notes on stderr."""
    from rlvitals.report.words import clean

    for note in notes:
        print(f"rlvitals: {clean(note)}", file=sys.stderr)
