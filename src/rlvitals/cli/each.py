"""`rlvitals check --each`: the runs under a directory, one row each."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlvitals.cli.common import Extras, load_run
from rlvitals.errors import InputError, Problem, SeveralRuns

if TYPE_CHECKING:
    from rlvitals.diagnosis import Diagnosis

MAX_DEPTH = 6  # folders below the one named (convention: project/experiment/seed/date fits)
RUN_MARKS = (".hydra", "trainer_state.json", "args.json", "config.yaml", "config.json")  # beside these lies one run


@dataclass(frozen=True, slots=True)
class Row:
    """One run: its diagnosis, or why it could not be read."""

    path: Path
    name: str
    diagnosis: Diagnosis | None = None
    problems: tuple[Problem, ...] = ()
    internal: bool = False  # the fault is rlvitals' own


def examine_each(roots: Sequence[Path], extras: Extras, since: int | None) -> tuple[Row, ...]:
    """Diagnose every run under the directories; an unreadable one is a row with its problems.

    Raises:
        InputError: there is nothing that could be a run.
    """
    found = [(root, path) for root in roots for path in find_runs(root)]
    if not found:
        where = ", ".join(map(str, roots))
        raise InputError(Problem("no run found", where, expected="run directories or log files"))
    return tuple(row for root, path in found for row in _examined(root, path, extras, since))


def find_runs(root: Path) -> Iterator[Path]:
    """Yield run directories and log files: each log directly in `root`, each folder that holds logs of one run."""
    if _holds_checkpoints(root):
        yield root
        return
    yield from (p for p in _entries(root) if _is_log(p))
    for folder in _folders(root):
        yield from _runs_below(folder, 1)


def _runs_below(folder: Path, depth: int) -> Iterator[Path]:
    inside = _entries(folder)
    if any(_is_log(p) or p.name in RUN_MARKS for p in inside) or _holds_checkpoints(folder):
        yield folder
    elif depth < MAX_DEPTH:
        for below in _folders(folder):
            yield from _runs_below(below, depth + 1)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _folders(folder: Path) -> list[Path]:
    return [p for p in _entries(folder) if p.is_dir() and not p.is_symlink() and not p.name.startswith(".")]


def _is_log(path: Path) -> bool:
    from rlvitals.ingest.discover import kind_of

    return path.is_file() and kind_of(path) != ""


def _holds_checkpoints(folder: Path) -> bool:
    return any((p / "trainer_state.json").is_file() for p in _folders(folder) if p.name.startswith("checkpoint"))


def _examined(root: Path, path: Path, extras: Extras, since: int | None) -> Iterator[Row]:
    """Yield the row of a run, or those of the runs that a folder turns out to hold."""
    try:
        yield _examine(root, path, extras, since)
    except SeveralRuns as error:
        for inner in error.runs:
            yield from _examined(root, inner, extras, since)


def _examine(root: Path, path: Path, extras: Extras, since: int | None) -> Row:
    from rlvitals.conclude import diagnose
    from rlvitals.focus import focus

    name = root.name if path == root else path.relative_to(root).as_posix()
    try:
        diagnosis = replace(diagnose(load_run([str(path)], extras)), name=name)
        last = diagnosis.position.last_step
        return Row(path, name, diagnosis if since is None or since > last else focus(diagnosis, since))
    except SeveralRuns:
        raise
    except InputError as error:
        return Row(path, name, problems=error.problems)
    except Exception as error:  # one unreadable run must not hide the others
        problem = Problem(f"rlvitals failed: {type(error).__name__}: {error}", str(path))
        return Row(path, name, problems=(problem,), internal=True)


def render_rows(rows: Sequence[Row], format: str) -> str:
    """Return the rows as a table for people, or as a JSON list for scripts."""
    if format == "json":
        return _json(rows)
    from rlvitals.report import terminal, words

    width = shutil.get_terminal_size((80, 24)).columns
    name_width = max(12, min(32, width // 4))
    lines = [terminal.row_header(width=width)]
    for row in rows:
        name = _tail(words.clean(row.name), name_width)
        if row.diagnosis is not None:
            lines.append(terminal.render_row(replace(row.diagnosis, name=name), width=width))
            continue
        what = words.clean("; ".join(p.what for p in row.problems))
        line = f"{'error':<10}  {name:<{name_width}}  {'':<9}  {what}"
        lines.append(line if len(line) <= width else line[: width - 1] + "…")
    lines += ["", _summary(rows)]
    unread = [(words.clean(r.name), words.clean(str(p))) for r in rows for p in r.problems]
    if unread:
        lines += ["", "Not read", *(_wrapped(f"{name}: {problem}", width) for name, problem in unread)]
    return "\n".join(lines) + "\n"


def _tail(name: str, width: int) -> str:
    """Return the end of a long path: that is where runs differ."""
    return name if len(name) <= width else "…" + name[1 - width :]


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(text, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _summary(rows: Sequence[Row]) -> str:
    counts: dict[str, int] = {}
    for row in rows:
        word = row.diagnosis.verdict.value.replace("_", " ") if row.diagnosis is not None else "unreadable"
        counts[word] = counts.get(word, 0) + 1
    order = ("stop", "act", "watch", "healthy", "cannot say", "unreadable")
    return f"{len(rows)} runs: " + ", ".join(f"{counts[w]} {w}" for w in order if w in counts)


def _json(rows: Sequence[Row]) -> str:
    import orjson

    from rlvitals.report import json

    out = [
        {"path": str(r.path), "diagnosis": json.to_dict(r.diagnosis)}
        if r.diagnosis is not None
        else {"path": str(r.path), "problems": [str(p) for p in r.problems]}
        for r in rows
    ]
    return orjson.dumps(out, option=orjson.OPT_INDENT_2).decode() + "\n"
