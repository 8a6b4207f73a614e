"""A user's fault: refused in plain words where it cannot be used, described anew, and known by what it injects."""

from __future__ import annotations

import json
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("transformers")

from rlvitals.cli.main import app
from rlvitals.errors import InputError
from rlvitals.lab.cases import Case
from rlvitals.lab.fault import Fault, Healthy
from rlvitals.lab.faults import FAULTS
from rlvitals.lab.find import own_faults
from rlvitals.lab.healthy import HEALTHY
from rlvitals.lab.injected import injected
from rlvitals.lab.run import is_other, refresh
from rlvitals.lab.valid import problems_of
from tests.lab.results import both, heard
from tests.lab.results import result as made

runner = CliRunner()

GOOD = '''
from dataclasses import replace
from rlvitals.lab.fault import Fault, Harm, Injection, Place, Strength

def inject(given: Injection):
    """Lower the rate."""
    return replace(given.config, lr=given.value), given.parts

MINE = Fault(
    name="mine", broken="The learning rate is 0.", place=Place.TRAINER, inject=inject,
    strengths=(Strength("lr 0", 0.0),), roots=("U008",), fix="Raise it.", settings={"prompts": 2}, steps=6,
)
'''


def load(folder: Path, text: str, name: str = "own") -> Fault | Healthy:
    """Return the fault of a text; each in a file of its own, as a call anew would read it."""
    file = folder / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    ((fault, _),) = own_faults([f"{file}:MINE"])
    return fault


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('strengths=(Strength("lr 0", 0.0),)', "strengths=()", "the fault has no strength to be run at"),
        ('roots=("U008",)', 'roots=("U999",)', "roots are no checks; found U999"),
        ('roots=("U008",)', 'roots=("U008")', "roots are no checks"),
        ('name="mine"', 'name="tasks-too-hard"', "the lab has a fault or healthy run of this name"),
        ('settings={"prompts": 2}', 'settings={"seed": 2}', "settings hold seed"),
        ('settings={"prompts": 2}', 'settings={"promts": 2}', "no such setting"),
        ("steps=6", "start=0", "the first broken step is none"),
        ("inject=inject", "inject=7", "inject is no function"),
        (
            "place=Place.TRAINER",
            'place="trainer"',
            "the field place does not fit; found place='trainer' (str); expected",
        ),
        ('name="mine"', "name=7", "the field name does not fit"),
        ('Strength("lr 0", 0.0)', 'Strength("lr 0", 0.0, "none")', "strength 'lr 0': the field harm does not fit"),
        ('Strength("lr 0", 0.0)', 'Strength("lr 0", "0")', "the field value does not fit"),
        ('Strength("lr 0", 0.0)', 'Strength("lr 0", float("nan"))', "a strength has no value"),
        ("steps=6", "steps=True", "the field steps does not fit"),
        ("steps=6", "steps=6, invariant=1", "the field invariant does not fit"),
        ("steps=6", 'steps=6, hidden={"TRL": "x"}', "of the layouts own, trl, verl, chapter7"),
        ("steps=6", "steps=6, start=9", "the run ends before the fault begins; found steps=6, start=9"),
        ('settings={"prompts": 2}', 'settings=[("prompts", 2)]', "the field settings does not fit"),
        (', fix="Raise it."', "", "own.py line 9: the Fault lacks fix; expected fix=, what mends it, in words"),
        ('fix="Raise it."', 'fxi="Raise it."', "own.py line 9: a Fault has no field fxi; expected fix="),
        ('Strength("lr 0", 0.0)', 'Strength("lr 0")', "own.py line 11: the Strength lacks value"),
        ("def inject(given: Injection):", "def inject(given: Injection)", "own.py line 5: the fault cannot be loaded"),
    ],
)
def test_a_fault_that_cannot_be_used_is_refused(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in GOOD
    with pytest.raises(InputError) as caught:
        load(tmp_path, GOOD.replace(old, new))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise KeyError('lr')", "inject failed"),
        ("return given.config", "inject returned something else than a setup"),
        ("return given.config, None", "found (Config, NoneType)"),
        (
            "return given.config, replace(given.parts, advantag=None)",
            "unexpected keyword argument 'advantag' (own.py line 7)",
        ),
        ("return given.config, replace(given.parts, advantage=None)", "parts whose advantage is a NoneType"),
    ],
)
def test_an_injection_that_fails_is_told_and_no_fault_of_ours(body: str, said: str, tmp_path: Path) -> None:
    text = GOOD.replace("return replace(given.config, lr=given.value), given.parts", body)
    fault = load(tmp_path, text)
    assert isinstance(fault, Fault)
    with pytest.raises(InputError) as caught:
        Case(fault, fault.strengths[0], 0).setup()
    assert said in str(caught.value)
    shown = runner.invoke(app, ["lab", "show", f"{tmp_path / 'own.py'}:MINE", "--out", str(tmp_path / "out")])
    assert (shown.exit_code, "Traceback" in shown.output) == (2, False)
    assert said in shown.output
    called = runner.invoke(
        app, ["lab", "run", "--fault", f"{tmp_path / 'own.py'}:MINE", "--out", str(tmp_path / "out")]
    )
    assert (called.exit_code, said in called.output) == (2, True)
    assert not (tmp_path / "out").exists()  # no control was trained before it was known


def test_the_faults_of_the_lab_hold_to_what_is_asked_of_others() -> None:
    subjects: list[Fault | Healthy] = [*FAULTS, *HEALTHY]
    assert [p for s in subjects for p in problems_of(s, s.name)] == []


def test_two_faults_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(GOOD, encoding="utf-8")
    with pytest.raises(InputError, match="two faults have one name"):
        own_faults([f"{tmp_path / 'a.py'}:MINE", f"{tmp_path / 'b.py'}:MINE"])


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--set", "seed=5"], "seed has an option of its own; expected --seeds 5"),
        (["--set", "steps=5"], "steps has an option of its own; expected --steps 5"),
        (["--set", "model=/nonexistent"], "no such model"),
        (["--faults", "none"], "nothing to run"),
        (["--out", "a-file"], "not a folder"),
        (["--out", "a-file/below"], "not a folder"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(
    args: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").write_text("x", encoding="utf-8")
    found = runner.invoke(app, ["lab", "run", *args])
    assert (found.exit_code, said in found.output) == (2, True), found.output


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("roots=", "allowed=('S001',), roots=", True),
        ('Strength("lr 0", 0.0)', 'Strength("lr 0", 0.0, Harm.NONE)', True),
        ('"""Lower the rate."""', '"""Lower it."""  # to nothing', True),
        ('fix="Raise it."', 'fix="Raise it, please."', True),
        ("lr=given.value)", "lr=given.value / 2)", False),
        ('Strength("lr 0", 0.0)', 'Strength("lr 0", 1e-9)', False),
        ('{"prompts": 2}', '{"prompts": 4}', False),
        ("steps=6", "steps=6, start=2", False),
    ],
)
def test_what_is_injected_is_known_by_its_code_and_not_by_its_description(
    old: str, new: str, same: bool, tmp_path: Path
) -> None:
    assert old in GOOD
    before, after = load(tmp_path, GOOD, "before"), load(tmp_path, GOOD.replace(old, new), "after")
    assert isinstance(before, Fault)
    assert isinstance(after, Fault)
    first, second = injected(before, before.strengths[0]), injected(after, after.strengths[0])
    assert first
    assert (first == second) is same
    assert injected(before, None) == ""


def test_results_are_described_anew_and_those_of_another_version_are_told(tmp_path: Path) -> None:
    fault = load(tmp_path, GOOD, "v1")
    assert isinstance(fault, Fault)
    plain = {**made("broken", "lr 0", 0, both(heard())), "subject": "mine", "about": {"roots": ["R001"]}}
    for name, digest in (("same", injected(fault, fault.strengths[0])), ("other", "0" * 16), ("old", "")):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        result = {**plain, "case": name, **({"injected": digest} if digest else {})}
        (folder / "result.json").write_bytes(orjson.dumps(result))
    assert refresh([fault], tmp_path / "runs") == ["other"]
    for name in ("same", "other", "old"):
        kept = json.loads((tmp_path / "runs" / name / "result.json").read_text(encoding="utf-8"))
        assert kept["about"]["roots"] == ["U008"]
    assert is_other({**plain, "injected": "x", "strength": "gone"}, fault)
