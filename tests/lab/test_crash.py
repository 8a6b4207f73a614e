"""A run that ends with an exception: a mistake in the code of a fault is no result, what it does to a trainer is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("transformers")

from rlvitals.cli.main import app
from rlvitals.errors import InputError
from rlvitals.grpo import loop
from rlvitals.lab.cases import Case
from rlvitals.lab.crash import Crash, Line, crash_of, is_no_result, own_line
from rlvitals.lab.fault import Fault
from rlvitals.lab.find import own_faults
from rlvitals.lab.kept import keep
from rlvitals.lab.results import crashes_in, read_results
from rlvitals.lab.run import run_case
from rlvitals.lab.score import layout_score

runner = CliRunner()

OWN = """from dataclasses import replace
from rlvitals.lab.fault import Fault, Injection, Place, Strength

def inject(given: Injection):
    def record(step, row):
        if step >= given.start:
            BODY
        return row

    return given.config, replace(given.parts, record=record)

MINE = Fault(
    name="mine", broken="Nothing is logged.", place=Place.LOGGING, inject=inject, strengths=(Strength("once", 0.0),),
    roots=("D001",), fix="Log it.", settings={"prompts": 2, "group_size": 2, "eval_every": 0}, steps=4, start=1,
)
"""


def fault_of(folder: Path, body: str, start: str = "1") -> tuple[Fault, str]:
    (folder / "own.py").write_text(OWN.replace("BODY", body).replace("start=1", f"start={start}"), encoding="utf-8")
    ((fault, source),) = own_faults([f"{folder / 'own.py'}:MINE"])
    assert isinstance(fault, Fault)
    return fault, source


@pytest.mark.parametrize(("start", "step"), [("1", 1), ("3", 3)])
def test_injected_code_that_raises_is_told_with_its_line_and_leaves_no_result(
    start: str, step: int, tmp_path: Path
) -> None:
    fault, source = fault_of(tmp_path, "1 / 0", start=start)
    out = tmp_path / "out"
    case = Case(fault, fault.strengths[0], 0, source=source)
    with pytest.raises(InputError) as caught:
        run_case(case, out)
    said = f"crashed at step {step}: ZeroDivisionError: division by zero at own.py line 7"
    assert said in str(caught.value)
    assert read_results(out) == []
    assert crashes_in(out) == [f"{case.name}: {said}"]
    scored = runner.invoke(app, ["lab", "score", "--out", str(out), "--fault", source])
    assert f"{case.name}: {said}" in scored.output
    called = runner.invoke(app, ["lab", "run", "--fault", source, "--out", str(out)])
    assert called.exit_code == 1
    assert said in called.output
    assert "1 run left no result" in called.output
    scored = runner.invoke(app, ["lab", "score", "--out", str(out), "--fault", source])
    assert "1 run crashed in the code of the fault or on what it returned and is not scored" in scored.output
    assert "no runs of no faults" in scored.output or "0 runs of 0 faults" in scored.output
    shown = runner.invoke(app, ["lab", "show", source, "--out", str(tmp_path / "show")])
    assert shown.exit_code == 1
    flat = " ".join(shown.output.split())
    assert said in flat
    assert "Nothing asked for a move" not in flat
    assert "2. The diagnosis" not in flat


def test_a_trainer_that_the_fault_brings_down_later_is_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault, source = fault_of(tmp_path, "pass")
    whole = loop.train

    def dies(*args: Any, **how: Any) -> None:
        whole(*args, **how)
        raise RuntimeError("probabilities are no numbers")

    monkeypatch.setattr(loop, "train", dies)
    monkeypatch.setattr("rlvitals.lab.crash.LIBRARIES", (Path(__file__).parent,))  # where this one raises
    case = Case(fault, fault.strengths[0], 0, source=source)
    found = run_case(case, tmp_path / "out")
    assert found["crash"].startswith("crashed at step 5: RuntimeError: probabilities are no numbers at run.py line ")
    with pytest.raises(InputError, match="crashed at step 5"):  # nothing is broken in a control
        run_case(Case(fault, None, 0, source=source), tmp_path / "out")
    assert [r["case"] for r in read_results(tmp_path / "out")] == [case.name]
    scored = runner.invoke(app, ["lab", "score", "--out", str(tmp_path / "out"), "--fault", source])
    assert "1 run ended in a crash and is scored so" in scored.output
    assert layout_score(keep([json.loads(json.dumps(found))], {}, {}), "own").named.of == 1


def _crash(step: int, *, own: bool) -> Crash:
    return Crash(step, "ValueError: x", Line("x.py", 1, own))


@pytest.mark.parametrize(
    ("step", "own", "start", "crashes", "mistake"),
    [
        (9, True, 5, False, True),  # the injected code itself
        (9, False, 5, False, False),  # the trainer, later
        (5, False, 5, False, True),  # the trainer, before one broken step was logged
        (5, True, 5, True, False),  # on purpose
    ],
)
def test_which_crash_is_a_mistake(
    step: int, own: bool, start: int, crashes: bool, mistake: bool, tmp_path: Path
) -> None:
    fault, _ = fault_of(tmp_path, "pass")
    made = replace(fault, start=start, crashes=crashes)
    assert is_no_result(_crash(step, own=own), made, broken=True) is mistake
    assert is_no_result(_crash(step, own=own), made, broken=False)


def test_the_line_is_that_of_the_user_and_not_of_a_library(tmp_path: Path) -> None:
    fault, _ = fault_of(tmp_path, "__import__('json').loads('{')")
    from rlvitals.grpo.config import Config
    from rlvitals.grpo.parts import Parts
    from rlvitals.lab.fault import Injection

    _, parts = fault.inject(Injection(Config(), Parts(), 0.0, 1))
    with pytest.raises(json.JSONDecodeError) as caught:
        parts.record(1, {})
    assert str(own_line(caught.value)) == "own.py line 7"
    found = crash_of(caught.value, fault, 0)
    assert found.line is not None
    assert found.line.own
