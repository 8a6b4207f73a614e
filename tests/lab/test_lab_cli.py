"""`rlvitals lab`: bad calls are refused, runs are found again, kept results become pages, and a short run is shown."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from rlvitals.cli.main import app
from rlvitals.errors import InputError
from rlvitals.lab import jobs
from rlvitals.lab.cases import Case, cases_of
from rlvitals.lab.fault import Fault, Healthy, Injection, Place, Strength
from rlvitals.lab.find import seeds_of
from rlvitals.lab.html import html
from rlvitals.lab.kept import write
from rlvitals.lab.page import markdown, size, summary
from rlvitals.lab.run import hear_cases, missing, read_results, run_cases
from rlvitals.lab.say import cells
from tests.lab.results import both, heard, kept, result

pytest.importorskip("torch")
pytest.importorskip("transformers")
from rlvitals.lab.faults import FAULTS

runner = CliRunner()

OWN = """
from dataclasses import replace
from rlvitals.lab.fault import Fault, Injection, Place, Strength

def inject(given: Injection):
    return replace(given.config, lr=given.value), given.parts

MINE = Fault(
    name="mine", broken="The learning rate is 0.", place=Place.TRAINER, inject=inject,
    strengths=(Strength("lr 0", 0.0),), roots=("U008",), fix="Raise it.",
    settings={"prompts": 2, "group_size": 4, "eval_items": 16}, steps=6,
)
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "own_fault.py").write_text(OWN, encoding="utf-8")
    return f"{tmp_path / 'own_fault.py'}:MINE"


def as_it_was(given: Injection) -> tuple[object, object]:
    return given.config, given.parts


FAULT = Fault("f", "x", Place.TASK, as_it_was, (Strength("a b/c", 1.0), Strength("d", 2.0)), ("R001",), "x")  # type: ignore[arg-type]
LONGER = Fault("g", "x", Place.TASK, as_it_was, (Strength("e", 1.0),), ("R001",), "x", steps=160)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("1", (0,)), ("3", (0, 1, 2)), ("100-102", (100, 101, 102)), ("0,7,3,7", (0, 7, 3)), ("5,", (5,))],
)
def test_seeds(text: str, seeds: tuple[int, ...]) -> None:
    assert seeds_of(text) == seeds


@pytest.mark.parametrize("text", ["", "0", "-1", "5-3", "a", "1.5", "0-99999", "1,,2", "9" * 30])
def test_what_is_no_seed(text: str) -> None:
    with pytest.raises(InputError, match="not seeds"):
        seeds_of(text)


def test_each_case_has_its_folder_and_equal_controls_are_one() -> None:
    found = [c.name for c in cases_of([(FAULT, ""), (LONGER, ""), (Healthy("h", "x"), "")], [0, 1])]
    assert found[:6] == [
        "control/default/seed-0", "f/a-b-c/seed-0", "f/d/seed-0", "control/default.160-steps/seed-0", "g/e/seed-0",
        "healthy/h/seed-0",
    ]  # fmt: skip
    assert len(found) == 12
    shared = cases_of([(FAULT, ""), (LONGER, "")], [0], steps=30, more={"task": "calculator"})
    assert [c.name for c in shared] == [
        "control/default.task-calculator.30-steps/seed-0", "f/a-b-c.task-calculator.30-steps/seed-0",
        "f/d.task-calculator.30-steps/seed-0", "g/e.task-calculator.30-steps/seed-0",
    ]  # fmt: skip
    long = Case(Healthy("h" * 200, "x"), None, 0).name
    assert len(long) < 110
    assert long != Case(Healthy("h" * 201, "x"), None, 0).name


def test_settings_of_the_subject_win_over_those_of_the_call() -> None:
    fault = Fault("f", "x", Place.TASK, as_it_was, (), (), "x", settings={"prompts": 4})  # type: ignore[arg-type]
    config, _ = Case(fault, None, 7, 30, (("lr", 0.5), ("prompts", 2))).setup()
    assert (config.prompts, config.lr, config.seed, config.steps) == (4, 0.5, 7, 30)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["run", "--faults", "tasks-to-hard"], "Nearest: tasks-too-hard"),
        (["run", "--healthy", "defalt"], "Nearest: default"),
        (["run", "--seeds", "many"], "not seeds"),
        (["run", "--set", "promts=4"], "Nearest: prompts"),
        (["run", "--fault", "nowhere:X"], "the fault cannot be loaded"),
        (["run", "--fault", "json:dumps"], "this is no fault"),
        (["run", "--fault", "nocolon"], "no such fault"),
        (["run", "--faults", "a", "--seeds", "b", "--set", "c"], "3 problems"),
        (["score"], "no results of the lab"),
        (["score", "--results", "nowhere.json"], "cannot read"),
        (["score", "--page", "lab.toml"], "--page: not a folder; found the file"),
        (["score", "--results", "lab.toml"], "Make it: rlvitals lab score --out FOLDER --json FILE"),
        (["show", "nan-from-one-step", "--steps", "5"], "nan-from-one-step breaks from step 60 on, after the run has"),
        (["run", "--faults", "nan-from-one-step", "--steps", "5"], "--steps: nan-from-one-step breaks from step 60 on"),
        (["show", "tasks-to-hard"], "Nearest: tasks-too-hard"),
        (["show", "tasks-too-hard", "--strength", "9 digits"], "no such strength"),
        (
            ["show", "nope"],
            "FAULT: no such fault in the lab; found 'nope'; expected the name of a fault, or module:NAME",
        ),
        (["show", "tasks-to-hard"], "Nearest: tasks-too-hard. List them: rlvitals lab list"),
        (["show", "small-batches"], "It is a healthy run: rlvitals lab run --healthy small-batches"),
        (["show", "none"], "FAULT: no such fault in the lab; found 'none'"),
        (["show", "os:nope"], "FAULT os:nope: the module has no nope; found no fault in it"),
        (
            ["run", "--healthy", "nope"],
            "--healthy: no such healthy run in the lab; found 'nope'; expected the name of a",
        ),
        (["run", "--healthy", "nope"], "List them: rlvitals lab list"),
        (["run", "--healthy", "tasks-too-hard"], "It is a fault: rlvitals lab run --faults tasks-too-hard"),
        (["run", "--fault", "os:nope"], "--fault os:nope: the module has no nope"),
        (
            ["run", "--fault", "rlvitals.lab.faults.tasks_too_hard:FALT"],
            "Nearest: FAULT. The lab's own by name: rlvitals",
        ),
        (["run", "--fault", "tasks-too-hard"], "It is a fault of the lab: rlvitals lab run --faults tasks-too-hard"),
        (["run", "--fault", "nowhere:X"], "The lab's own by name: rlvitals lab list"),
        (["run", "--faults", "tasks-too-hard", "--set", "task=nope"], "task: unknown task; found 'nope'"),
    ],
)
def test_a_bad_call_is_refused(args: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab.toml").write_text("x", encoding="utf-8")
    found = runner.invoke(app, ["lab", *args])
    assert found.exit_code == 2, found.output
    assert said in found.output
    assert found.output.startswith("rlvitals: ")
    assert [f.name for f in tmp_path.iterdir()] == ["lab.toml"]


def test_list_names_every_fault_with_its_root() -> None:
    found = runner.invoke(app, ["lab", "list"], env={"COLUMNS": "300"})
    assert found.exit_code == 0
    for fault in FAULTS:
        assert f"  {fault.name} " in found.stdout
        assert f"[{' or '.join(fault.named) or 'none can be named'}]" in found.stdout
    assert "small-batches" in found.stdout


@pytest.mark.parametrize("width", [80, 60, 132])
def test_what_the_lab_prints_fits_the_terminal(width: int, tmp_path: Path) -> None:
    write(kept(*(result("broken", "much", s, both(heard(["R001"]))) for s in range(3))), tmp_path / "lab.json")
    score = ["lab", "score", "--results", str(tmp_path / "lab.json")]
    for args in (["lab", "list"], score):
        said = runner.invoke(app, args, env={"COLUMNS": str(width)}).stdout
        assert max(map(len, said.splitlines())) <= width
        assert "…" not in said
    assert cells([("a b", "one two"), ("c", "three")], 80) == ["  a b  one two", "  c    three"]
    long = cells([("left cell of words", "right " * 20), ("", "more")], 44)
    assert long[:2] == ["  left cell of words  right right right", "                      right right right"]
    assert long[-1] == "                      more"


def test_kept_results_become_text_and_pages(tmp_path: Path) -> None:
    made = kept(
        result("broken", "much", 0, both(heard(["R001"]))),
        result("broken", "much", 1, both(heard(["K001"]))),
        result("hard", None, 0, both(heard())),
    )
    text = summary(made, 132)
    assert "2 runs of 1 fault, seeds 0, 1; 2 controls; 1 healthy run; 300 steps with nothing broken" in text
    assert re.search(r"\n  cause or its direct sign first at the end  +50\.0% \(1 of 2; 9-91%\)\n", text)
    assert "1 run of 1 fault, seed 0; 2 controls; no healthy runs; " in size(
        kept(result("broken", "much", 0, both(heard(["R001"]))))
    )
    page = markdown(made)
    assert "| broken | much | reward | yes | 0.40 (0.90) | 10 | 1/2 | 0/2 (h) |" in page
    assert "| broken | much | R001 | T001 | K001 1/2, R001 1/2 |   |" in page
    assert "| broken | much | own | K001 | 1 | 1 |" in page
    assert "| broken | trl | not logged |" in page
    shown = html(made)
    assert '<td class="no">0/2 (h)</td>' in shown  # a harmed run that its log cannot show was called healthy
    assert 'title="broken: K001 in 1 of 2, first in 1 (wrong)"' in shown
    assert "<td>K001</td>" in shown
    assert "<td>R001</td>" not in shown  # that run came out right
    assert ">healthy, without</td>" in shown
    write(made, tmp_path / "lab.json")
    found = runner.invoke(
        app,
        ["lab", "score", "--results", str(tmp_path / "lab.json"), "--page", str(tmp_path / "docs")],
        env={"COLUMNS": "132"},
    )
    assert (found.exit_code, found.stdout) == (0, text + "\n")
    assert (tmp_path / "docs" / "scoreboard.md").read_text(encoding="utf-8") == page
    assert (tmp_path / "docs" / "scoreboard.html").read_text(encoding="utf-8") == html(made)


def test_names_in_results_are_escaped() -> None:
    hostile = result("broken", "<script>x</script>", 0, both(heard(["<img src=x>"])))
    made = kept(hostile)
    assert "<script>x" not in html(made)
    assert "<img" not in html(made)
    assert "<script>" not in markdown(made)


@pytest.mark.slow
def test_a_fault_of_ones_own_is_run_once_examined_again_and_scored(mine: str, tmp_path: Path) -> None:
    out = tmp_path / "lab"
    call = ["lab", "run", "--fault", mine, "--seeds", "1", "--out", str(out)]
    first = runner.invoke(app, call)
    assert first.exit_code == 0, first.output
    assert "2 runs into" in first.output
    names = [r["case"] for r in read_results(out)]
    assert [n.split("/")[0] for n in names] == ["control", "mine"]
    (broken,) = [r for r in read_results(out) if r["subject"] == "mine" and r["strength"]]
    assert (broken["steps"], sorted(broken["heard"])) == (6, ["chapter7", "own", "trl", "verl"])
    assert [h["steps"] for h in broken["heard"].values()] == [6, 6, 6, 6]
    assert broken["about"]["roots"] == ["U008"]
    again = runner.invoke(app, call)
    assert "0 runs into" in again.output
    assert "2 there already" in again.output
    heard_again = runner.invoke(app, [*call, "--again"])
    assert heard_again.exit_code == 0, heard_again.output
    assert [r["heard"] for r in read_results(out) if r["case"] == broken["case"]] == [broken["heard"]]
    scored = runner.invoke(app, ["lab", "score", "--out", str(out)])
    assert scored.exit_code == 0, scored.output
    assert "1 run of 1 fault, seed 0; 1 control; no healthy runs; 6 steps" in scored.output


@pytest.mark.slow
def test_several_at_a_time_give_what_one_at_a_time_gives(mine: str, tmp_path: Path) -> None:
    cases = cases_of(_own(mine), [0, 1])
    said: list[tuple[str, str]] = []
    assert run_cases(cases, tmp_path / "two", 2, lambda name, text: said.append((name, text))) == 0
    assert sorted(said) == sorted((c.name, "done") for c in cases)
    assert missing(cases, tmp_path / "two") == []
    assert run_cases(cases[:2], tmp_path / "one", 1, lambda name, text: None) == 0
    one = {r["case"]: r["held_out"] for r in read_results(tmp_path / "one")}
    two = {r["case"]: r["held_out"] for r in read_results(tmp_path / "two")}
    assert {name: two[name] for name in one} == one


def test_a_case_that_cannot_be_examined_again_costs_no_other(tmp_path: Path) -> None:
    said: list[str] = []
    assert hear_cases(["nowhere"], tmp_path, 1, lambda name, text: said.append(text)) == 1
    assert "no result of the lab" in said[0]


def test_a_log_on_which_rlvitals_fails_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import rlvitals.lab.run as lab_run

    def failing(folder: Path) -> None:
        raise ValueError("a fault of ours")

    case = tmp_path / "f" / "a" / "seed-0"
    (case / "run").mkdir(parents=True)
    whole = result("broken", "much", 0, both(heard()), case="f/a/seed-0")
    (case / "result.json").write_bytes(orjson.dumps(whole))
    monkeypatch.setattr(lab_run, "LAYOUTS", {"own": None})
    monkeypatch.setattr(lab_run, "examine", failing)
    said: list[str] = []
    assert hear_cases(["f/a/seed-0"], tmp_path, 1, lambda name, text: said.append(text)) == 1
    assert said == ["own: rlvitals failed: ValueError: a fault of ours"]
    assert read_results(tmp_path)[0]["heard"]["own"]["verdict"] == "cannot_say"


@pytest.mark.slow
def test_show_trains_names_mends_and_verifies(tmp_path: Path) -> None:
    found = runner.invoke(app, ["lab", "show", "parser-changed", "--out", str(tmp_path)])
    assert found.exit_code == 0, found.output
    for part in (
        "1. Break it",
        "noticed at step 6, 5 steps after it broke",
        "2. The diagnosis",
        "3. Mend it",
        "Fixed: ",
    ):
        assert part in found.output
    assert "R021 is right" in found.output  # the parser, and not the reward that it leaves constant


def _own(source: str) -> list[tuple[Fault | Healthy, str]]:
    from rlvitals.lab.find import own_faults

    return own_faults([source])


def test_a_module_of_ones_own_is_found_where_the_command_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lab_own_module.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    ((found, source),) = _own("lab_own_module:MINE")
    assert (found.name, source) == ("mine", "lab_own_module:MINE")


def test_the_example_of_the_page_works(tmp_path: Path) -> None:
    import torch

    from rlvitals.grpo.presets import recipe_of

    text = (Path(__file__).parents[2] / "docs" / "lab.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    (tmp_path / "my_faults.py").write_text(code, encoding="utf-8")
    ((fault, _),) = _own(f"{tmp_path / 'my_faults.py'}:DROPPED")
    assert isinstance(fault, Fault)
    config, parts = Case(fault, fault.strengths[0], 0).setup()
    _, healthy = Case(fault, None, 0).setup()
    given = (recipe_of(config).advantage, torch.tensor([[1.0], [0.0]]), torch.tensor([0, 0]), torch.ones(1))
    assert parts.advantage(*given).tolist() == healthy.advantage(*given).clamp(min=0).tolist()


def test_more_cases_than_one_set_of_processes_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that renews its processes came to a standstill once each had done its share (cpython issue 115634)."""
    monkeypatch.setattr(jobs, "PER_PROCESS", 1)
    heard: list[str] = []
    names = [f"healthy/none/seed-{i}" for i in range(5)]
    assert hear_cases(names, tmp_path, 2, lambda name, text: heard.append(name)) == 5
    assert sorted(heard) == names
