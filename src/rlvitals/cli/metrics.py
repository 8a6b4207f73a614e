"""`rlvitals metrics`: the vocabulary, or what was recognised in one run and what to add to its log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlvitals.cli.common import EVALS_HELP, INPUT_PANEL, MAP_HELP, SETTINGS_HELP, load_run, missing_paths, read_extras
from rlvitals.errors import InputError, Problem


def metrics(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH]", help="A run, as for check. Without it: the vocabulary.", show_default=False),
    ] = None,
    map_: Annotated[
        list[str] | None, typer.Option("--map", metavar="METRIC=KEY", help=MAP_HELP, rich_help_panel=INPUT_PANEL)
    ] = None,
    evals: Annotated[
        list[str] | None, typer.Option("--evals", metavar="NAME=FILE", help=EVALS_HELP, rich_help_panel=INPUT_PANEL)
    ] = None,
    settings: Annotated[
        Path | None, typer.Option("--settings", metavar="FILE", help=SETTINGS_HELP, rich_help_panel=INPUT_PANEL)
    ] = None,
) -> None:
    """Show what was recognised in a run, what was not, and the lines that add what is missing."""
    from rlvitals.cli.show import show
    from rlvitals.reference.metrics import vocabulary_page

    problems = missing_paths(paths or ())
    extras = read_extras(map_, evals, settings, problems)
    if not paths and (map_ or evals or settings):
        problems.append(Problem("options without a run", "rlvitals metrics", expected="a PATH before them"))
    if problems:
        raise InputError(*problems)
    if not paths:
        show(vocabulary_page())
        return
    from rlvitals.conclude import diagnose
    from rlvitals.reference.run import run_page

    run = load_run(paths, extras)
    show(run_page(run, diagnose(run)))
