"""`rlvitals check`: exit codes, formats, --since, --each, stdin, and every problem of a bad call at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rlvitals.check import Verdict
from rlvitals.checks import data_nonfinite
from rlvitals.cli.check import deliver, exit_code
from rlvitals.cli.each import find_runs
from rlvitals.cli.main import app
from rlvitals.conclude import diagnose
from rlvitals.errors import InputError
from rlvitals.focus import focus
from rlvitals.schema import Run
from tests.cli.runs import sft_rows, trl_rows, write_jsonl

runner = CliRunner()
SRC = Path(__file__).parents[2] / "src"


def rlvitals(
    *args: str, stdin: str = "", env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "rlvitals", *args],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SRC), **(env or {})},
        cwd=cwd,
        check=False,
    )


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "healthy" / "log.jsonl", trl_rows())


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "broken" / "log.jsonl", trl_rows(nan_from=40))


def test_exit_code_0_for_a_run_below_fail_on(healthy: Path) -> None:
    result = runner.invoke(app, ["check", str(healthy)])
    assert result.exit_code == 0, result.output


def test_exit_code_1_and_the_cause_with_its_onset(broken: Path) -> None:
    result = runner.invoke(app, ["check", str(broken), "--format", "json"])
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["verdict"] == "stop"
    assert found["causes"][0]["id"] == "D001"
    assert found["causes"][0]["onset_step"] == 40


def test_exit_code_2_for_a_log_that_is_no_rl_run(tmp_path: Path) -> None:
    result = runner.invoke(app, ["check", str(write_jsonl(tmp_path / "sft.jsonl", sft_rows()))])
    assert result.exit_code == 2
    assert "supervised training" in result.stderr
    assert result.stdout == ""


def test_exit_code_3_when_the_log_cannot_tell(tmp_path: Path) -> None:
    result = runner.invoke(app, ["check", str(write_jsonl(tmp_path / "short.jsonl", trl_rows(5)))])
    assert result.exit_code == 3
    assert "5 usable steps" in result.stdout


def test_exit_codes_follow_fail_on() -> None:
    run = Run("r", np.arange(1, 81), {"reward_mean": np.linspace(0.4, 0.5, 80), "grad_norm": np.full(80, 0.2)})
    diagnosis = diagnose(run, (data_nonfinite.CHECK,))
    table = {
        (Verdict.HEALTHY, "watch"): 0,
        (Verdict.WATCH, "watch"): 1,
        (Verdict.WATCH, "act"): 0,
        (Verdict.ACT, "act"): 1,
        (Verdict.ACT, "stop"): 0,
        (Verdict.STOP, "stop"): 1,
        (Verdict.CANNOT_SAY, "watch"): 3,
    }
    for (verdict, fail_on), code in table.items():
        assert exit_code(replace(diagnosis, verdict=verdict), fail_on) == code


def test_every_problem_of_a_bad_call_is_told_at_once_with_the_nearest_name(healthy: Path) -> None:
    args = ["check", str(healthy), "--format", "htm", "--fail-on", "acts", "--map", "rewrd_mean=reward", "--map", "kl"]
    result = runner.invoke(app, [*args, "--evals", "math=none.csv", "--since", "soon"])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[0] == "rlvitals: 6 problems"
    for expected in (
        "Nearest: html",
        "Nearest: act",
        "Nearest: reward_mean",
        "METRIC=KEY",
        "none.csv",
        "a whole number",
    ):
        assert expected in result.stderr


def test_a_missing_file_names_the_nearest_one(healthy: Path) -> None:
    result = runner.invoke(app, ["check", str(healthy.with_name("lgo.jsonl"))])
    assert result.exit_code == 2
    assert "Nearest: log.jsonl" in result.stderr


def test_an_unknown_option_is_a_usage_error(healthy: Path) -> None:
    result = runner.invoke(app, ["check", str(healthy), "--fromat", "json"])
    assert result.exit_code == 2


def test_a_path_without_a_command_is_told_the_command(healthy: Path) -> None:
    result = runner.invoke(app, [str(healthy)])
    assert result.exit_code == 2
    assert f"rlvitals check {healthy}" in result.stderr


def test_a_map_says_what_a_column_is(tmp_path: Path) -> None:
    rows = [{"step": s, "zonk": 0.4 + 0.001 * s, "kl": 0.001, "grad_norm": 0.2} for s in range(1, 60)]
    log = write_jsonl(tmp_path / "own.jsonl", rows)
    result = runner.invoke(app, ["check", str(log), "--map", "reward_mean=zonk", "--format", "json"])
    assert result.exit_code in (0, 1, 3)
    assert json.loads(result.stdout)["run"]["name"] == "own.jsonl"


def test_since_hides_what_was_over_and_never_what_asks_for_a_move(tmp_path: Path) -> None:
    step = np.arange(1, 101)
    columns = {"reward_mean": np.linspace(0.4, 0.5, 100), "grad_norm": np.full(100, 0.2)}
    flags = np.zeros(100)
    flags[19] = 1.0
    once = Run("once", step, {**columns, "nonfinite/grad_norm": flags})
    diagnosis = diagnose(once, (data_nonfinite.CHECK,))
    assert diagnosis.verdict is Verdict.WATCH
    assert focus(diagnosis, 20).causes[0].id == "D001"
    later = focus(diagnosis, 21)
    assert later.causes == ()
    assert later.verdict is Verdict.HEALTHY
    assert later.outcomes == diagnosis.outcomes
    flags[19:] = 1.0
    for_good = diagnose(Run("for good", step, {**columns, "nonfinite/grad_norm": flags}), (data_nonfinite.CHECK,))
    assert focus(for_good, 90).verdict is Verdict.STOP
    with pytest.raises(InputError, match="the last step is 100"):
        focus(diagnosis, 101)


def test_each_is_one_row_per_run_and_an_error_is_a_row(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a" / "log.jsonl", trl_rows(nan_from=40))
    write_jsonl(tmp_path / "deep" / "er" / "log.jsonl", trl_rows())
    write_jsonl(tmp_path / "sft.jsonl", sft_rows())
    names = [p.relative_to(tmp_path).as_posix() for p in find_runs(tmp_path)]
    assert names == ["sft.jsonl", "a", "deep/er"]
    result = runner.invoke(app, ["check", "--each", str(tmp_path)])
    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert lines[1].split()[:2] == ["error", "sft.jsonl"]
    assert lines[2].split()[:2] == ["stop", "a"]
    assert "D001" in lines[2]
    assert lines[3].split()[1] == "deep/er"
    assert lines[5].startswith("3 runs: 1 stop")
    assert lines[7] == "Not read"
    assert "supervised training" in lines[8]
    as_json = json.loads(runner.invoke(app, ["check", "--each", str(tmp_path), "--format", "json"]).stdout)
    assert [sorted(row) for row in as_json] == [["path", "problems"], ["diagnosis", "path"], ["diagnosis", "path"]]


def test_each_wants_directories_and_a_format_of_rows(healthy: Path) -> None:
    result = runner.invoke(app, ["check", "--each", str(healthy), "--format", "html"])
    assert result.exit_code == 2
    assert "2 problems" in result.stderr


def test_each_refuses_a_directory_without_runs(tmp_path: Path) -> None:
    result = runner.invoke(app, ["check", "--each", str(tmp_path)])
    assert result.exit_code == 2
    assert "no run found" in result.stderr


def test_a_file_gets_plain_text_of_80_columns(broken: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    result = runner.invoke(app, ["check", str(broken), "--out", str(out)])
    assert result.exit_code == 1
    assert result.stdout == ""
    text = out.read_text()
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_file_that_cannot_be_written_is_a_problem(healthy: Path, tmp_path: Path) -> None:
    result = runner.invoke(app, ["check", str(healthy), "--out", str(tmp_path / "no" / "where.txt")])
    assert result.exit_code == 2
    assert "cannot write" in result.stderr


def test_stdin_no_colour_and_exit_code_in_a_process(broken: Path) -> None:
    done = rlvitals("check", "-", stdin=broken.read_text(), env={"NO_COLOR": "1"})
    assert done.returncode == 1, done.stderr
    assert "STOP" in done.stdout
    assert "\x1b" not in done.stdout


def test_bad_settings_are_told_with_file_and_nearest_name(healthy: Path, tmp_path: Path) -> None:
    settings = tmp_path / "rlvitals.toml"
    settings.write_text('[thresholds]\n"D001.nonfinite_row" = 3\n[map]\nrewardmean = "reward"\n')
    result = runner.invoke(app, ["check", str(healthy), "--settings", str(settings)])
    assert result.exit_code == 2
    assert "reward_mean" in result.stderr
    settings.write_text('[thresholds]\n"D001.nonfinite_row" = 3\n')
    result = runner.invoke(app, ["check", str(healthy), "--settings", str(settings)])
    assert result.exit_code == 2
    assert "Nearest: D001.nonfinite_rows" in result.stderr


def test_a_check_that_is_switched_off_is_named_with_the_reason(broken: Path) -> None:
    toml = '[checks]\noff = [{id = "D001", reason = "known bad gradient logger"}]\n'
    (broken.parent / "rlvitals.toml").write_text(toml)
    result = runner.invoke(app, ["check", str(broken), "--format", "json"])
    found = json.loads(result.stdout)
    assert "D001" not in {c["id"] for c in found["causes"]}
    assert "known bad gradient logger" in json.dumps(found["outcomes"]["D001"])


@pytest.mark.parametrize(
    ("name", "start"), [("html", b"<!doctype html>"), ("png", b"\x89PNG"), ("markdown", b"## Stop:")]
)
def test_other_formats_go_to_the_file_named(broken: Path, tmp_path: Path, name: str, start: bytes) -> None:
    out = tmp_path / "out"
    result = runner.invoke(app, ["check", str(broken), "-f", name, "-o", str(out)])
    assert result.exit_code == 1, result.output
    assert out.read_bytes()[: len(start)].lower() == start.lower()
    assert result.stdout == ""


def test_pages_never_go_to_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run("my run/7", np.arange(1, 31), {"reward_mean": np.linspace(0.4, 0.5, 30)})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    deliver(diagnose(run, (data_nonfinite.CHECK,)), "html", None)
    assert [p.name for p in tmp_path.iterdir()] == ["rlvitals-my-run-7.html"]


def test_a_fault_of_rlvitals_in_one_run_is_a_row_and_exit_code_70(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jsonl(tmp_path / "a.jsonl", trl_rows())

    def fail(*_: object) -> None:
        raise RuntimeError("broken inside")

    monkeypatch.setattr("rlvitals.cli.each.load_run", fail)
    result = runner.invoke(app, ["check", "--each", str(tmp_path)])
    assert result.exit_code == 70
    assert "rlvitals failed: RuntimeError: broken inside" in result.stdout


def test_a_closed_pipe_is_no_finding(tmp_path: Path) -> None:
    script = f"{sys.executable} -m rlvitals explain | head -1; echo ${{PIPESTATUS[0]}}"
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=env, check=True)
    assert done.stdout.split()[0] == "Checks"
    assert done.stdout.split()[1] in ("0", "141")
