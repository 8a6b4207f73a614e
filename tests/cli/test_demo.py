"""`rlvitals demo`: the example run that ships with the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlvitals.cli import demo
from rlvitals.cli.main import app
from tests.cli.runs import trl_rows, write_jsonl

runner = CliRunner()


def test_demo_prints_the_diagnosis_and_writes_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_jsonl(tmp_path / "examples" / "trl_run" / "log.jsonl", trl_rows(nan_from=40))
    monkeypatch.setattr(demo, "EXAMPLES", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["demo"])
    assert result.exit_code == 0, result.output
    assert "D001" in result.stdout
    assert "rlvitals check PATH" in result.stdout
    assert (tmp_path / "rlvitals-demo.html").read_text()[:15].lower() == "<!doctype html>"


def test_demo_plays_the_recording_first_and_leaves_it_out_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jsonl(tmp_path / "examples" / "trl_run" / "log.jsonl", trl_rows(nan_from=40))
    monkeypatch.setattr(demo, "EXAMPLES", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    played = runner.invoke(app, ["demo"]).stdout
    assert played.startswith("Recorded: rlvitals lab show parser-changed (seed 0)")
    assert played.index("Fixed: ") < played.index("D001")
    alone = runner.invoke(app, ["demo", "--report-only"]).stdout
    assert played.endswith(alone)
    assert "Recorded" not in alone
    missing = runner.invoke(app, ["demo", "--play", "gone.jsonl"])
    assert (missing.exit_code, "cannot read" in missing.output) == (2, True)


def test_demo_needs_no_torch() -> None:
    code = (
        "import sys; from rlvitals.cli import demo; from rlvitals.lab.screen import Screen; "
        "from rlvitals.lab.recording import play, read; play(read(demo.RECORDING), Screen()); "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_a_missing_example_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "EXAMPLES", tmp_path)
    result = runner.invoke(app, ["demo"])
    assert result.exit_code == 2
    assert "the example run is missing" in result.stderr
