"""A result that is not whole is named, never scored and trained anew."""

from __future__ import annotations

import json
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("transformers")

from rlvitals.cli.main import app
from rlvitals.lab import run
from rlvitals.lab.cases import Case
from rlvitals.lab.fault import Fault
from rlvitals.lab.find import subject_of
from rlvitals.lab.results import HEARD, WHOLE, read_all, wrong_with
from rlvitals.lab.run import missing, torn
from tests.lab.results import both, heard, result

runner = CliRunner()
WHOLE_ONE = {**result("broken", "much", 0, both(heard(["R001"]))), "subject": "tasks-too-hard"}


def without(name: str, layout: str = "") -> str:
    made = json.loads(json.dumps(WHOLE_ONE))
    del (made["heard"][layout] if layout else made)[name]
    return json.dumps(made)


def other(**changes: object) -> str:
    return json.dumps({**WHOLE_ONE, **changes})


TORN = [
    ("", "found an empty file"),
    ("{}", "found {}, nothing in it"),
    ("[]", "found a list"),
    ("null", "found a NoneType"),
    (json.dumps(WHOLE_ONE)[:200], "found broken JSON"),
    (other(heard={}), "found no answer for any layout"),
    (other(heard={"own": {}}), "found {}, nothing in it"),
    (other(heard={"own": []}), "found a list as the answer for the layout own"),
    (other(heard={"own": {**heard(), "alarms": [1]}}), "heard.own.alarms without step or check"),
    (other(heard={"own": {**heard(), "named": {"R001": None}}}), "heard.own.named without steps"),
    (other(seed="0"), "seed: a str"),
    *((without(name), f"no {name}") for name in WHOLE),
    *((without(name, "trl"), f"no heard.trl.{name}") for name in HEARD),
]


def test_what_the_lab_writes_is_whole() -> None:
    assert wrong_with(json.loads(json.dumps(WHOLE_ONE))) == ""


@pytest.mark.parametrize(("text", "said"), TORN)
def test_what_is_not_whole_is_named_and_not_scored(text: str, said: str, tmp_path: Path) -> None:
    for name, content in (("torn", text), ("whole", json.dumps(WHOLE_ONE))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(content, encoding="utf-8")
    found, problems = read_all(tmp_path)
    assert (len(found), len(problems)) == (1, 1)
    assert str(tmp_path / "torn" / "result.json") in str(problems[0])
    assert said in str(problems[0])
    scored = runner.invoke(app, ["lab", "score", "--out", str(tmp_path)])
    assert scored.exit_code == 0, scored.output
    assert said in scored.output
    assert "1 run of 1 fault" in scored.output


def test_it_is_trained_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = subject_of("tasks-too-hard", "", healthy=False)
    assert isinstance(fault, Fault)
    cases = [Case(fault, s, 0) for s in (None, *fault.strengths)]
    for case, text in zip(cases, ("{}", orjson.dumps(WHOLE_ONE).decode()), strict=False):
        (tmp_path / case.name).mkdir(parents=True)
        (tmp_path / case.name / "result.json").write_text(text, encoding="utf-8")
    assert [c.name for c in missing(cases, tmp_path)] == [c.name for c in (cases[0], *cases[2:])]
    assert len(torn(cases, tmp_path)) == 1
    trained: list[str] = []

    def train(todo: list[Case], *_: object) -> int:
        trained.extend(c.name for c in todo)
        return 0

    monkeypatch.setattr(run, "run_cases", train)
    found = runner.invoke(app, ["lab", "run", "--faults", "tasks-too-hard", "--out", str(tmp_path)])
    assert found.exit_code == 0, found.output
    assert "found {}, nothing in it" in found.output
    assert ": trained anew" in found.output
    assert cases[0].name in trained
