"""What the commands share: exit codes, how problems are shown, and the options that describe the input."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rlvitals.errors import InputError, Problem

if TYPE_CHECKING:
    from rlvitals.ingest.trajectories import Count
    from rlvitals.schema import Run
    from rlvitals.settings import Settings

INPUT_PANEL = "What the log does not say"
SHOW_PANEL = "What is shown"

MAP_HELP = "Say what a key of the log is: METRIC=KEY (step=KEY and eval:NAME=KEY too). Repeatable."
EVALS_HELP = "Add held-out scores kept elsewhere: NAME=FILE (CSV, JSON, lm-eval or lighteval results). Repeatable."
SETTINGS_HELP = "Read this rlvitals.toml; without it the one beside the run or above it, if any."


class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0  # healthy, or below --fail-on
    FINDINGS = 1  # at or above --fail-on
    BAD_INPUT = 2  # wrong usage, or an input that cannot be read
    CANNOT_SAY = 3  # read, but the log cannot tell
    INTERNAL = 70  # a fault of rlvitals itself, never to be read as a finding


EXIT_MEANING: dict[Exit, str] = {
    Exit.OK: "healthy, or nothing as bad as --fail-on",
    Exit.FINDINGS: "a verdict as bad as --fail-on or worse",
    Exit.BAD_INPUT: "wrong usage, or an input that cannot be read",
    Exit.CANNOT_SAY: "the log was read and cannot tell",
    Exit.INTERNAL: "a fault of rlvitals itself",
}


def show_problems(problems: Sequence[Problem]) -> None:
    """Print every problem on stderr, numbered when there are several."""
    from rlvitals.report.words import clean

    lines = [clean(str(p)) for p in problems]
    if len(lines) == 1:
        print(f"rlvitals: {lines[0]}", file=sys.stderr)
        return
    print(f"rlvitals: {len(lines)} problems", file=sys.stderr)
    for n, line in enumerate(lines, 1):
        print(f"  {n}. {line}", file=sys.stderr)


def nearest(name: str, known: Iterable[str], before: str = "Nearest: ") -> str:
    """Return "Nearest: x" for the closest known name, "" when none is close."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"{before}{found[0]}" if found else ""


def one_of(value: str, allowed: Sequence[str], option: str, problems: list[Problem]) -> str:
    """Return the value; adds a problem when it is none of the allowed ones."""
    if value not in allowed:
        expected = ", ".join(allowed[:-1]) + f" or {allowed[-1]}"
        problems.append(Problem("unknown value", option, repr(value), expected, nearest(value, allowed)))
    return value


def pairs(values: Sequence[str], option: str, form: str, problems: list[Problem]) -> dict[str, str]:
    """Return NAME=VALUE options as a mapping; adds a problem for each that has another form or comes twice."""
    out: dict[str, str] = {}
    for text in values:
        name, sign, value = text.partition("=")
        if not (name and sign and value):
            problems.append(Problem("not a pair", option, repr(text), form))
        elif name in out:
            problems.append(Problem(f"{name} is given twice", option, f"{out[name]!r} and {value!r}", "one of them"))
        else:
            out[name] = value
    return out


@dataclass(frozen=True, slots=True)
class Extras:
    """The user's own additions to what a log says."""

    map: dict[str, str]
    evals: dict[str, str]
    settings: Settings | None


def read_extras(
    map_: Sequence[str] | None, evals: Sequence[str] | None, settings: Path | None, problems: list[Problem]
) -> Extras:
    """Return --map, --evals and --settings as values; adds every problem found in them."""
    from rlvitals.metrics import is_canonical

    mapped = pairs(map_ or (), "--map", "METRIC=KEY", problems)
    for name in mapped:
        if not (is_canonical(name) or name == "step" or name.startswith("eval:")):
            hint = _metric_hint(name) or "List them with: rlvitals metrics"
            problems.append(Problem("unknown metric", "--map", repr(name), "a metric of rlvitals", hint))
    files = pairs(evals or (), "--evals", "NAME=FILE", problems)
    problems += [
        Problem("no such file or directory", f"--evals {name}", file)
        for name, file in files.items()
        if not Path(file).exists()
    ]
    loaded: Settings | None = None
    if settings is not None:
        from rlvitals.settings import load_settings

        try:
            loaded = load_settings(settings)
        except InputError as error:
            problems.extend(error.problems)
    return Extras(mapped, files, loaded)


def _metric_hint(name: str) -> str:
    """Return the nearest metric for a slip of the pen, that of a trainer's own key, else the nearest there is."""
    from rlvitals.metrics import METRICS
    from rlvitals.reference.keys import meanings

    names = [m.name for m in METRICS]
    slip = difflib.get_close_matches(name, names, n=1, cutoff=0.85)
    found = [] if slip else list(dict.fromkeys(m.metric for m in meanings(name)))
    return f"Meant is perhaps {' or '.join(found)}" if found else nearest(name, names)


def missing_paths(paths: Sequence[str]) -> list[Problem]:
    """Return a problem for each path that is not there, with the nearest name beside it."""
    out = []
    for text in paths:
        path = Path(text).expanduser()
        if text == "-" or "://" in text or path.exists():
            continue
        if path.is_symlink():
            out.append(Problem("a link that leads to no file", text, str(path.readlink())))
            continue
        beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        out.append(Problem("no such file or directory", text, hint=nearest(path.name, beside)))
    return out


def load_run(paths: Sequence[str], extras: Extras, counting: Count | None = None) -> Run:
    """Read one run. Raises InputError with every problem, settings that name no check or threshold included."""
    from rlvitals.checks import CHECKS
    from rlvitals.ingest import load
    from rlvitals.settings import Settings, check_names

    run = load(*paths, map=extras.map, evals=extras.evals, settings=extras.settings, counting=counting)
    if isinstance(run.settings, Settings):
        check_names(run.settings, [c.id for c in CHECKS], [f"{c.id}.{t.name}" for c in CHECKS for t in c.thresholds])
    return run


def write_file(path: Path, content: bytes) -> None:
    """Write a result. Raises InputError when that fails."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InputError(Problem("cannot write", str(path), error.strerror or str(error))) from error


def leave(code: Exit) -> None:
    """End the command with an exit code other than 0."""
    if code is not Exit.OK:
        raise typer.Exit(int(code))
