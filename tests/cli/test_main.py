"""The command as a whole: help, version, what it imports, internal faults."""

from __future__ import annotations

import subprocess
import sys

import pytest
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
