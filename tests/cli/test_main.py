"""The command as a whole: help, version, what it imports, internal faults."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from rlvitals import __version__
from rlvitals.cli import main as cli
from tests.cli.test_check import SRC, rlvitals

HEAVY = ("duckdb", "plotly", "jinja2", "yaml", "numpy", "orjson", "zstandard", "matplotlib")


def test_version() -> None:
    result = CliRunner().invoke(cli.app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"rlvitals {__version__}\n")


def test_help_names_every_command_and_python_m_works() -> None:
    done = rlvitals("--help")
    assert done.returncode == 0
    for name in ("check", "demo", "explain", "metrics"):
        assert f" {name} " in done.stdout


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, sub in getattr(command, "commands", {}).items():
        yield from commands(sub, (*path, name))


ALL = dict(commands(typer.main.get_command(cli.app)))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_is_whole_sentences(path: tuple[str, ...]) -> None:
    """The first paragraph is reflowed to the terminal; later ones keep their line breaks, so each line is whole."""
    first, *later = inspect.cleandoc(ALL[path].help).split("\n\n")
    lines = [line for paragraph in later for line in paragraph.split("\n")]
    said = [first.replace("\n", " "), *(line for line in lines if not re.match(r"Exit code \d+: \S", line))]
    said += [p.help for p in ALL[path].params if getattr(p, "help", None)]
    assert [s for s in said if not s.endswith((".", "?", "..."))] == []
    assert [s for s in said if s.endswith(" .") or "  " in s] == []


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_fits_the_terminal(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(cli.app, [*path, "--help"], env={"COLUMNS": "80", "TERM": "dumb"}).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown, "nothing is cut off"


def test_help_imports_nothing_heavy() -> None:
    code = "import sys, rlvitals.cli.main; print(*[m for m in sys.argv[1:] if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code, *HEAVY], capture_output=True, text=True, env={"PYTHONPATH": str(SRC)}, check=True
    )
    assert done.stdout.split() == []


def test_a_fault_of_rlvitals_is_never_read_as_a_finding(monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    def fail(**_: object) -> None:
        raise RuntimeError("broken inside")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit, match="70"):
        cli.main()
    assert "broken inside" in capsys.readouterr().err
