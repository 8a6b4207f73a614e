"""`rlvitals check`: read a run, examine it, print one ordered diagnosis."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlvitals.cli.common import (
    EVALS_HELP,
    INPUT_PANEL,
    MAP_HELP,
    SETTINGS_HELP,
    SHOW_PANEL,
    Exit,
    Extras,
    leave,
    load_run,
    missing_paths,
    one_of,
    read_extras,
    write_file,
)
from rlvitals.errors import InputError, Problem

if TYPE_CHECKING:
    from rlvitals.diagnosis import Diagnosis

FORMATS = ("terminal", "json", "markdown", "html", "png")
FILE_FORMATS = {"html": ".html", "png": ".png"}  # written to a file where stdout is a terminal
ENDINGS = {".html": "html", ".htm": "html", ".json": "json", ".md": "markdown", ".png": "png"}
FAIL_ON = ("watch", "act", "stop")

FORMAT_HELP = "terminal, json, markdown, html or png."
OUT_HELP = "Write it to this file."
FAIL_ON_HELP = "Exit with 1 from this verdict on: watch, act or stop."
SINCE_HELP = "Show only what was active or began at this step or later. The whole run is examined all the same."
FOLLOW_HELP = (
    "Stay with a running run and print what changes; PATH need not exist yet. Ctrl-C ends with the diagnosis. With "
    "another format than terminal and no --out, changes go to stderr."
)
BASELINE_HELP = "A healthy run of yours to compare with; several make a band. Repeatable."
EACH_HELP = "PATH is a directory of many runs: one row for each."


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for, valid as a whole."""

    format: str
    out: Path | None
    fail_on: str
    since: int | None
    extras: Extras
    baseline: tuple[str, ...] = ()


def check(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="A log, a run directory, several files of one run, or - for stdin."),
    ],
    format: Annotated[
        str, typer.Option("--format", "-f", metavar="FORMAT", help=FORMAT_HELP, rich_help_panel=SHOW_PANEL)
    ] = "terminal",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help=OUT_HELP, rich_help_panel=SHOW_PANEL)
    ] = None,
    fail_on: Annotated[
        str, typer.Option("--fail-on", metavar="VERDICT", help=FAIL_ON_HELP, rich_help_panel=SHOW_PANEL)
    ] = "act",
    since: Annotated[
        str | None, typer.Option("--since", metavar="STEP", help=SINCE_HELP, rich_help_panel=SHOW_PANEL)
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option("--baseline", metavar="RUN", help=BASELINE_HELP, rich_help_panel=INPUT_PANEL),
    ] = None,
    each: Annotated[bool, typer.Option("--each", help=EACH_HELP, rich_help_panel=SHOW_PANEL)] = False,
    follow: Annotated[bool, typer.Option("--follow", help=FOLLOW_HELP, rich_help_panel=SHOW_PANEL)] = False,
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
    """Diagnose a run: what is wrong, what caused what, what to do first.

    Exit code 0: healthy, or not as bad as --fail-on
    Exit code 1: as bad as --fail-on, or worse
    Exit code 2: wrong usage, or an input that cannot be read
    Exit code 3: the log was read and cannot tell
    """
    problems: list[Problem] = _follow_problems(paths, each) if follow else missing_paths(paths)
    one_of(format, FORMATS, "--format", problems)
    one_of(fail_on, FAIL_ON, "--fail-on", problems)
    step = _step(since, problems)
    if paths.count("-") > 1:
        problems.append(Problem("stdin is named twice", "PATH", "-", "at most one -"))
    chosen = format
    if out is not None and format == "terminal":  # terminal text is no use in a file that ends in .html
        chosen = ENDINGS.get(out.suffix.lower(), format)
    healthy = tuple(baseline or ())
    problems += [*missing_paths(healthy), *(_each_problems(paths, chosen, healthy) if each else ())]
    request = Request(chosen, out, fail_on, step, read_extras(map_, evals, settings, problems), healthy)
    if problems:
        raise InputError(*problems)
    if follow:
        leave(_follow(paths[0], request))
        return
    leave(_check_each(paths, request) if each else _check_one(paths, request))


def _step(since: str | None, problems: list[Problem]) -> int | None:
    """Return --since as a step; adds a problem when it is none."""
    if since is None:
        return None
    if since.isascii() and since.isdigit():
        return int(since)
    problems.append(Problem("not a step", "--since", repr(since), "a whole number, 0 or more"))
    return None


def _each_problems(paths: Sequence[str], format: str, baseline: Sequence[str]) -> list[Problem]:
    problems = [
        Problem("not a directory", "--each", path, "a directory that holds runs")
        for path in paths
        if Path(path).exists() and not Path(path).is_dir()
    ]
    if baseline:
        problems.append(Problem("not with --each", "--baseline", baseline[0], "one run to compare"))
    if format in FORMATS and format not in ("terminal", "json"):
        problems.append(Problem("no table of runs in this format", "--format", format, "terminal or json with --each"))
    return problems


def _follow_problems(paths: Sequence[str], each: bool) -> list[Problem]:
    """Return why these paths cannot be followed; a path that does not exist yet can."""
    problems = []
    if len(paths) != 1 or paths[0] == "-" or "://" in paths[0]:
        problems.append(Problem("cannot be followed", "--follow", " ".join(paths), "one log file or run directory"))
    if each:
        problems.append(Problem("--each and --follow exclude each other", "--follow", expected="one of them"))
    return problems


def _follow(path: str, request: Request) -> Exit:
    from rlvitals.cli.follow import follow, say
    from rlvitals.focus import focus

    parsed = request.format != "terminal" and request.out is None  # stdout is then a document that nothing may precede
    changes = sys.stderr if parsed else sys.stdout
    diagnosis = follow(Path(path).expanduser(), request.extras, changes=changes)
    if diagnosis is None:
        say(f"rlvitals: {path}: no step was read")
        return Exit.BAD_INPUT
    if request.since is not None:
        diagnosis = focus(diagnosis, request.since)
    deliver(diagnosis, request.format, request.out)
    return exit_code(diagnosis, request.fail_on)


def _check_one(paths: Sequence[str], request: Request) -> Exit:
    from rlvitals.conclude import diagnose
    from rlvitals.exploit import with_exploit
    from rlvitals.focus import focus

    run = load_run(paths, request.extras)
    if request.baseline:
        from rlvitals.record.baseline import with_baseline

        run = with_baseline(run, [load_run([path], request.extras) for path in request.baseline])
    diagnosis = _with_lesson(with_exploit(diagnose(run)), paths)
    if request.since is not None:
        diagnosis = focus(diagnosis, request.since)
    deliver(diagnosis, request.format, request.out)
    return exit_code(diagnosis, request.fail_on)


def _with_lesson(diagnosis: Diagnosis, paths: Sequence[str]) -> Diagnosis:
    """Return the diagnosis with what the record says of the last run on the same task and model."""
    from dataclasses import replace

    from rlvitals.record.lessons import last_lesson, sentence

    places = tuple(Path(p) for p in paths if p != "-" and "://" not in p)
    found = last_lesson(diagnosis.run, places) if diagnosis.run is not None and places else None
    return diagnosis if found is None else replace(diagnosis, lesson=sentence(found))


def _check_each(paths: Sequence[str], request: Request) -> Exit:
    from rlvitals.cli.each import examine_each, render_rows

    rows = examine_each([Path(p) for p in paths], request.extras, request.since)
    content = render_rows(rows, request.format)
    _put(content.encode(), request.out)
    codes = [exit_code(r.diagnosis, request.fail_on) for r in rows if r.diagnosis is not None]
    codes += [Exit.INTERNAL if r.internal else Exit.BAD_INPUT for r in rows if r.diagnosis is None]
    order = (Exit.FINDINGS, Exit.INTERNAL, Exit.BAD_INPUT, Exit.CANNOT_SAY)
    return next((code for code in order if code in codes), Exit.OK)


def exit_code(diagnosis: Diagnosis, fail_on: str) -> Exit:
    """Return what a diagnosis means to a script."""
    verdict = diagnosis.verdict.value
    if verdict == "cannot_say":
        return Exit.CANNOT_SAY
    if verdict in FAIL_ON and FAIL_ON.index(verdict) >= FAIL_ON.index(fail_on):
        return Exit.FINDINGS
    return Exit.OK


def render(diagnosis: Diagnosis, format: str, *, to_file: bool = False) -> bytes:
    """Return the diagnosis in a format. Raises InputError when the format needs a package that is not there."""
    if format == "terminal":
        from rlvitals.report import terminal

        return (terminal.render(diagnosis, width=80, color=False) if to_file else terminal.render(diagnosis)).encode()
    if format == "png":
        from rlvitals.report import png

        return png.render(diagnosis)
    return _text_renderer(format)(diagnosis).encode()


def _text_renderer(format: str) -> Callable[[Diagnosis], str]:
    if format == "json":
        from rlvitals.report import json

        return json.render
    if format == "markdown":
        from rlvitals.report import markdown

        return markdown.render
    from rlvitals.report import html

    return html.render


def deliver(diagnosis: Diagnosis, format: str, out: Path | None) -> None:
    """Write the diagnosis to a file, or to stdout; pictures and pages never go to a terminal."""
    if out is None and format in FILE_FORMATS and sys.stdout.isatty():
        out = Path(f"rlvitals-{_slug(diagnosis.name)}{FILE_FORMATS[format]}")
    _put(render(diagnosis, format, to_file=out is not None), out)


def _put(content: bytes, out: Path | None) -> None:
    if out is not None:
        write_file(out, content)
        print(f"Wrote {out}", file=sys.stderr)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(content if content.endswith(b"\n") or content.startswith(b"\x89PNG") else content + b"\n")
    sys.stdout.flush()


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60] or "run"
