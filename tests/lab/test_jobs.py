"""The queue of the lab: a signal ends it at once, and what it stopped leaves no result."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("transformers")

from rlvitals.cli.main import app
from rlvitals.grpo import loop
from rlvitals.lab import run
from rlvitals.lab.cases import Case
from rlvitals.lab.fault import Healthy
from rlvitals.lab.jobs import STOPPED, Interrupted, Job, Stopped, each, work
from rlvitals.lab.run import ASKED, missing, run_case, run_cases
from tests.grpo.loops import PARTS, config, one_thread
from tests.lab.results import both, heard, result

runner = CliRunner()
CASE = Case(Healthy("h", "x", settings={"prompts": 2, "group_size": 4, "eval_items": 16}), None, 0, 3)


@dataclass
class Takes:
    """A job of some seconds that leaves a file at its end."""

    name: str
    file: Path
    seconds: float

    def __call__(self) -> str:
        time.sleep(self.seconds)
        self.file.write_text("x", encoding="utf-8")
        return ""


@dataclass
class Stops:
    name: str

    def __call__(self) -> str:
        raise Stopped("asked to stop (SIGINT)")


def quiet(name: str, text: str) -> None:
    pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_trainer_says_that_it_was_asked_to_stop_as_the_lab_reads_it(tmp_path: Path, number: int) -> None:
    one_thread()
    ended = loop.train(config(steps=5), PARTS, folder=tmp_path / "run", watch=[lambda *_: os.kill(os.getpid(), number)])
    assert (ended.steps, ended.reason.startswith(ASKED)) == (1, True)


def test_a_run_that_was_stopped_leaves_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "train", lambda *_, **__: SimpleNamespace(reason="asked to stop (SIGINT)"))
    with pytest.raises(Stopped):
        run_case(CASE, tmp_path)
    assert missing([CASE], tmp_path) == [CASE]
    assert list(tmp_path.rglob("*.json")) == []
    assert work(Stops("a")) == STOPPED


@pytest.mark.parametrize("jobs", [1, 2])
def test_nothing_more_is_begun_once_a_run_was_stopped(jobs: int, tmp_path: Path) -> None:
    todo: list[Job] = [Stops("a"), *(Takes(f"{i}", tmp_path / f"{i}", 2.0) for i in range(4))]
    with pytest.raises(Interrupted) as caught:
        each(todo, jobs, quiet)
    assert caught.value.left == 5
    time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_several_processes_and_what_waits_for_them(number: int, tmp_path: Path) -> None:
    todo = [Takes("0", tmp_path / "0", 0.0), *(Takes(f"{i}", tmp_path / f"{i}", 60.0) for i in range(1, 6))]
    begun = time.monotonic()
    with pytest.raises(Interrupted) as caught:
        each(todo, 2, lambda name, text: os.kill(os.getpid(), number))
    assert caught.value.left == 5
    assert time.monotonic() - begun < 40  # of 150 that they would take
    assert [f.name for f in tmp_path.iterdir()] == ["0"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_what_is_given_is_run_though_it_has_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--fresh` trains anew: its runs have results, of another version of their fault."""
    (tmp_path / CASE.name).mkdir(parents=True)
    whole = result("hard", None, 0, both(heard()))
    (tmp_path / CASE.name / "result.json").write_bytes(orjson.dumps(whole))
    assert missing([CASE], tmp_path) == []
    done: list[str] = []
    monkeypatch.setattr(run._Train, "__call__", lambda self: "")
    assert run_cases([CASE], tmp_path, 1, lambda name, text: done.append(f"{name}: {text}")) == 0
    assert done == [f"{CASE.name}: done"]


@pytest.mark.parametrize("again", [False, True])
def test_the_command_says_what_is_left(again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise Interrupted(3)

    monkeypatch.setattr(run, "hear_cases" if again else "run_cases", interrupted)
    call = ["lab", "run", "--faults", "tasks-too-hard", "--out", str(tmp_path), *(["--again"] if again else [])]
    found = runner.invoke(app, call)
    assert found.exit_code == 130
    assert found.output.splitlines()[-1] == "interrupted: 3 left, call it again"
