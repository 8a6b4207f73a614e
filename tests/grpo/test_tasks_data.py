"""Tasks over data: columns, golds, splits, verifiers in a worker, generated puzzles and programs with tests."""

from __future__ import annotations

import json
import math
import socket
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rlvitals.env import Message, Step, VerifierStatus
from rlvitals.errors import InputError
from rlvitals.grpo import hub
from rlvitals.grpo.rewards.program import Limits, run_program
from rlvitals.grpo.tasks.base import Task
from rlvitals.grpo.tasks.code import program_of
from rlvitals.grpo.tasks.columns import choose, gold_of, items_of, messages_of
from rlvitals.grpo.tasks.gym import harmless
from rlvitals.grpo.tasks.load import load_task
from rlvitals.grpo.tasks.page import tasks_page

RIGHT, WRONG, NO_PARSE = VerifierStatus.RIGHT, VerifierStatus.WRONG, VerifierStatus.NO_PARSE
GSM8K = {"question": "Two and three?", "answer": "Two and three are <<2+3=5>>5.\n#### 5"}
MATH = {
    "problem": "What is 1/2?", "level": "Level 1", "type": "Algebra", "solution": r"It is $\boxed{\frac{1}{2}}$."
}  # fmt: skip


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def played(task: Task, text: str) -> Step:
    env = task.new_env()
    env.reset((task.train + task.held_out)[0], 0)
    return env.step(text)


@pytest.mark.parametrize(
    ("cell", "gold"),
    [
        ("so 5.\n#### 5", "5"),
        (r"\boxed{1} or \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (" 7 ", "7"),
        (7, "7"),
        (0.5, "0.5"),
        (["7"], "7"),
        ("", None),
        (None, None),
        (True, None),
        ({"a": 1}, None),
        (0.00001, "0.00001"),
        (1e16, "10000000000000000"),
        ([1e-7], "0.0000001"),
        (math.nan, None),
        (-math.inf, None),
    ],
)
def test_gold_in_an_answer_cell(cell: object, gold: str | None) -> None:
    assert gold_of(cell) == gold


def test_prompt_cells_are_text_or_messages() -> None:
    assert messages_of("hi", "be brief") == (Message("system", "be brief"), Message("user", "hi"))
    turns = [{"role": "system", "content": "own"}, {"role": "user", "content": "hi"}]
    assert messages_of(turns, "be brief") == (Message("system", "own"), Message("user", "hi"))
    assert [messages_of(cell, "") for cell in ("", "  ", 5, [], [{"role": "user"}], ["hi"])] == [None] * 6


def test_columns_of_known_datasets_are_found() -> None:
    gsm8k, math_ = choose(list(GSM8K), "x"), choose(list(MATH), "x")
    assert (gsm8k.prompt, gsm8k.answer) == ("question", "answer")
    assert (math_.prompt, math_.answer, math_.family, math_.tier) == ("problem", "solution", "type", "level")


def test_missing_columns_are_all_named_at_once() -> None:
    with pytest.raises(InputError) as caught:
        choose(["text", "label"], "data.jsonl")
    assert [p.what for p in caught.value.problems] == ["no prompt column", "no answer column"]
    with pytest.raises(InputError, match="Nearest: label"):
        choose(["text", "label"], "data.jsonl", prompt="text", answer="labels")


def test_broken_rows_are_named() -> None:
    rows: list[dict[str, object]] = [{"q": "1", "a": "1"}, {"q": "", "a": "1"}, {"q": "2"}, *[{"q": "3"}] * 6]
    with pytest.raises(InputError) as caught:
        items_of(rows, choose(["q", "a"], "f", prompt="q", answer="a"), "f")
    said = [str(p) for p in caught.value.problems]
    assert said[0].startswith("f row 2, q: no prompt text")
    assert said[1].startswith("f row 3, a: no answer")
    assert said[-1] == "f: 3 more broken rows"


def test_gsm8k_rows_become_a_task(tmp_path: Path) -> None:
    rows = [{**GSM8K, "question": f"{n} and {n}?", "answer": f"#### {2 * n}"} for n in range(200)]
    path = write(tmp_path / "gsm8k.jsonl", rows)
    task = load_task(f"dataset:path={path},verifier=numeric,held_out_percent=20,system=no")
    assert len(task.train) + len(task.held_out) == 200
    assert 20 <= len(task.held_out) <= 60
    assert {i.id for i in task.train}.isdisjoint(i.id for i in task.held_out)
    gold = task.train[0].gold
    right = played(task, f"<think>1 2 3</think>It is {gold}.")
    assert (right.status, right.rewards, right.raw, right.done) == (RIGHT, {"correct": 1.0}, gold, True)
    assert right.parsed == gold
    assert (played(task, "no number here").status, played(task, "no number here").parsed) == (NO_PARSE, None)
    assert task.version == load_task(f"dataset:path={path},verifier=numeric,system=no").version
    assert task.version != load_task(f"dataset:path={path},verifier=exact,system=no").version


def test_math_rows_become_a_task(tmp_path: Path) -> None:
    pytest.importorskip("math_verify", reason="needs math-verify: pip install 'rlvitals[train]'")
    path = write(tmp_path / "math.jsonl", [MATH])
    task = load_task(f"dataset:path={path},held_out_percent=0,seconds=30")
    item = task.train[0]
    assert (item.gold, item.family, item.tier, task.tiers) == (r"\frac{1}{2}", "Algebra", "Level 1", ("Level 1",))
    assert item.messages[0].role == "system"
    assert played(task, r"\boxed{0.5}").status is RIGHT
    assert played(task, r"0.5").status is NO_PARSE


def test_verifier_that_fails_is_an_error_without_a_reward(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [{"prompt": "?", "answer": "5"}])
    task = load_task(f"dataset:path={path},verifier=numeric,held_out_percent=0")
    step = played(replace(task, train=(replace(task.train[0], gold="five apples"),)), "5")
    assert step.status is VerifierStatus.ERROR
    assert math.isnan(step.rewards["correct"])
    assert "is no number" in step.raw


def test_milestones_of_a_dataset_give_partial_credit(tmp_path: Path) -> None:
    row = {"prompt": "7+5+1", "answer": "13", "milestones": ["7+5=12", "12+1=13"]}
    task = load_task(
        f"dataset:path={write(tmp_path / 'm.jsonl', [row])},verifier=exact,held_out_percent=0,milestones=0.5"
    )
    assert played(task, "<think>7+5=12</think>14").rewards == {"correct": 0.0, "milestones": 0.5}
    assert task.plan.weights == (1.0, 0.5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no rows"),
        ('{"prompt": "1", "answer": "1"}\nnot json\n[1]\n', "line 2: not a JSON object"),
        ('{"text": "1"}\n', "no prompt column"),
        ('{"prompt": "1", "answer": NaN}\n', "row 1, answer: no answer; found nan"),
        ('{"prompt": "1", "answer": "1"}\n{"prompt": "\\ud800", "answer": "1"}\n', "line 2: half a surrogate pair"),
        ('{"prompt": "1", "answer": "1"}\n\n{"prompt": "2", "answer": {"a": ["\\udfff"]}}\n', "line 3: half a surr"),
        ('{"prompt": "1", "answer": "\xe9"}\n', r"line 1: not UTF-8; found b'.*\\xe9"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "d.jsonl").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=said):
        load_task(f"dataset:path={tmp_path / 'd.jsonl'}")
    with pytest.raises(InputError, match="no such file"):
        load_task(f"dataset:path={tmp_path / 'gone.jsonl'}")


def test_pairs_of_surrogates_and_a_byte_order_mark_are_text(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"prompt": "\\ud83d\\ude00", "answer": "1"}\r\n')
    task = load_task(f"dataset:path={path},verifier=numeric,held_out_percent=0,system=no")
    assert task.train[0].messages == (Message("user", "\U0001f600"),)


def test_plain_floats_are_right_where_they_are_right(tmp_path: Path) -> None:
    path = write(tmp_path / "f.jsonl", [{"prompt": "?", "answer": 0.00001}])
    task = load_task(f"dataset:path={path},verifier=numeric,held_out_percent=0")
    assert played(task, "It is 0.00001").status is RIGHT


def test_expected_answers_that_the_verifier_cannot_read_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "g.jsonl", [{"prompt": f"{n}?", "answer": "abc" if n % 2 else "7"} for n in range(20)])
    with pytest.raises(InputError) as caught:
        load_task(f"dataset:path={path},verifier=numeric")
    assert [p.where for p in caught.value.problems[:2]] == [f"{path} row 2", f"{path} row 4"]
    assert str(caught.value.problems[0]).count("'abc', which is no number") == 1
    assert caught.value.problems[-1].what == "5 more broken rows"
    good = write(tmp_path / "h.jsonl", [{"prompt": f"{n}!", "answer": "7"} for n in range(3)])
    with pytest.raises(InputError, match="row 2: the verifier numeric cannot read"):
        load_task(f"dataset:path={good},verifier=numeric,held_out_path={path}")
    pytest.importorskip("jsonschema", reason="needs jsonschema: pip install 'rlvitals[tasks]'")
    with pytest.raises(InputError, match=r"row 2: .*the schema can't be used"):
        load_task(f"dataset:path={path},verifier=json")


def test_held_out_questions_in_training_are_refused(tmp_path: Path) -> None:
    rows = [{"prompt": f"{n}?", "answer": "1"} for n in range(5)]
    train, other = write(tmp_path / "a.jsonl", rows), write(tmp_path / "b.jsonl", rows[3:])
    with pytest.raises(InputError, match=r"held-out questions are among the training ones.*found 2"):
        load_task(f"dataset:path={train},held_out_path={other}")


def test_hub_datasets_are_read_through_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = ModuleType("datasets")
    asked: list[tuple[object, ...]] = []

    def load_dataset(name: str, config: str | None, split: str) -> list[dict[str, Any]]:
        asked.append((name, config, split))
        return [GSM8K]

    fake.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", fake)
    monkeypatch.setattr(hub, "unreachable", lambda: "")
    task = load_task("dataset:path=hub:openai/gsm8k,config=main,verifier=numeric,held_out_percent=0")
    assert asked == [("openai/gsm8k", "main", "train")]
    assert task.train[0].gold == "5"
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match="needs datasets"):
        load_task("dataset:path=hub:openai/gsm8k")


@pytest.fixture(scope="module")
def puzzles() -> Task:
    pytest.importorskip("reasoning_gym", reason="needs reasoning-gym: pip install 'rlvitals[tasks]'")
    return load_task("gym:name=basic_arithmetic+spell_backward,size=6,held_out=3,partial=0.1")


def test_puzzles_are_scored_by_their_package(puzzles: Task) -> None:
    assert {i.family for i in puzzles.train} == {"basic_arithmetic", "spell_backward"}
    asked = {i.messages for i in puzzles.train}
    assert not any(i.messages in asked for i in puzzles.held_out)
    right = played(puzzles, f"<answer>{puzzles.train[0].gold}</answer>")
    assert (right.status, right.rewards) == (RIGHT, {"correct": 1.0, "partial": 1.0})
    assert (right.parsed, right.raw) == (puzzles.train[0].gold, f"1: {puzzles.train[0].gold}")
    wrong = played(puzzles, "<answer>no</answer>")
    assert (wrong.status, wrong.rewards["correct"]) == (WRONG, 0.0)
    assert played(puzzles, "no tags").status is NO_PARSE
    assert puzzles.plan.names == ("correct", "partial")


def test_unknown_puzzle_and_settings_are_said(puzzles: Task) -> None:
    with pytest.raises(InputError, match="can't make this puzzle"):
        load_task("gym:name=no_such_puzzle")
    with pytest.raises(InputError, match="no JSON object"):
        load_task("gym:settings=[1]")


@pytest.mark.parametrize(
    ("name", "answer", "fits"),
    [
        ("countdown", "(1+2)*3", True),
        ("countdown", "open('x','w')", False),
        ("puzzle24", "().__class__", False),
        ("spiral_matrix", "1 2 3", True),
        ("spiral_matrix", "[1, 2]", True),
        ("spiral_matrix", "exit()", False),
        ("n_queens", "_ Q\nQ _", True),
        ("polynomial_multiplication", "3*x**2 + 2*x - 1", True),
        ("simple_integration", "2*x**3/3 + exp(x) + C", True),
        ("simple_integration", "x.func", False),
        ("simple_integration", "__import__('os')", False),
        ("string_insertion", "['A', 'B']", True),
        ("string_insertion", "[print(1)]", False),
        ("basic_arithmetic", "anything(", True),  # its scorer compares text
    ],
)
def test_answers_to_puzzles_that_evaluate_them_are_screened(name: str, answer: str, fits: bool) -> None:
    assert harmless(name, answer) is fits


TESTS = "assert add(2, 3) == 5\nassert add(-1, 1) == 0\n"
GOOD = "def add(a, b):\n    return a + b\n"
QUICK = Limits(seconds=1.0, memory_mb=256)


def test_program_that_passes_its_tests() -> None:
    assert run_program(GOOD, TESTS, QUICK)[0] is RIGHT


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("def add(a, b):\n    return a - b\n", "AssertionError"),
        ("def add(a, b: pass", "SyntaxError"),
        ("import sys; sys.exit(0)", "SystemExit"),
        ("import os; os._exit(0)", "ended with status 0"),
        ("print('passed')\nimport os; os._exit(0)", "ended with status 0"),
        ("x = bytearray(2**31)", "MemoryError"),
        ("open('big', 'wb').write(b'0' * 2**22)", ""),
        (
            "import os\nassert not os.environ.get('HOME')\nassert os.listdir('.') == []\nraise KeyError('clean')",
            "KeyError",
        ),
        ("\x00", "null character"),
    ],
)
def test_program_that_does_not(program: str, said: str) -> None:
    status, output = run_program(program, TESTS, QUICK)
    assert status is WRONG
    assert said in output


def test_program_that_never_ends_is_wrong_in_time() -> None:
    status, said = run_program("while True: pass", TESTS, QUICK)
    assert status is WRONG
    assert "no end within" in said or "signal" in said


def test_program_is_the_last_block_behind_the_thinking() -> None:
    assert program_of("<think>```python\na\n```</think>```python\nb\n```\ntext```py\nc\n```") == "c\n"
    assert program_of("def add(): pass") is None


def test_code_task_asks_first_and_then_runs(tmp_path: Path) -> None:
    path = write(tmp_path / "code.jsonl", [{"prompt": "Write add.", "tests": TESTS}])
    with pytest.raises(InputError, match="no security boundary"):
        load_task(f"code:path={path}")
    other = write(tmp_path / "other.jsonl", [{"text": "Write add.", "check": TESTS}])
    with pytest.raises(InputError) as caught:
        load_task(f"code:path={other},allow=yes")
    assert [p.what for p in caught.value.problems] == ["no tests column 'tests'", "no prompt column"]
    assert caught.value.problems[0].hint == "Name it: tests=COLUMN"
    task = load_task(f"code:path={path},allow=yes,held_out_percent=0,seconds=2")
    assert played(task, f"```python\n{GOOD}```").rewards == {"correct": 1.0}
    assert played(task, "```python\nadd = None\n```").rewards == {"correct": 0.0}
    assert played(task, "none").status is NO_PARSE


def test_page_of_tasks_is_the_one_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")
    assert page.split("\n\n", 1)[1] == tasks_page()


def test_program_has_no_network_or_says_that_it_has() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        connect = f"    socket.create_connection(('127.0.0.1', {port}), 0.5)"
        program = f"import socket\ntry:\n{connect}\nexcept OSError:\n    cut = 1\n"
        status, said = run_program(program, "assert cut", QUICK)
    assert status is RIGHT or "network: not cut off" in said
