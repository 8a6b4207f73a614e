"""What is told before the first step: nothing held out, questions that repeat; a patience that could never end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlvitals.cli.main import app
from rlvitals.errors import InputError
from rlvitals.grpo.loop import train
from rlvitals.grpo.tasks.columns import Columns, items_of, repeats
from tests.grpo.loops import PARTS, config, one_thread, sevens

COLUMNS = Columns("question", "answer")
NONE_HELD_OUT = replace(PARTS, held_out=lambda c, t: replace(sevens(c, t), held_out=()))


def told(folder: Path) -> list[str]:
    events = [json.loads(line) for line in (folder / "events.jsonl").open()]
    return [e["detail"] for e in events if e["kind"] == "notice"]


def test_a_run_without_a_held_out_score_says_so_and_how_to_get_one(tmp_path: Path) -> None:
    one_thread()
    train(config(steps=1), PARTS, folder=tmp_path / "with")
    train(config(steps=1, task="gym:held_out=0"), NONE_HELD_OUT, folder=tmp_path / "without")
    train(config(steps=1, eval_every=0), PARTS, folder=tmp_path / "never")
    assert told(tmp_path / "with") == []
    assert told(tmp_path / "without") == [
        "no held-out score: the task gym has 0 held-out items, so reward that is gamed or memorised looks like "
        "progress; to get one: --task gym:...,held_out=100; a puzzle with few questions needs a larger held_out"
    ]
    (said,) = told(tmp_path / "never")
    assert "eval_every is 0" in said
    assert said.endswith("to get one: --set eval_every=10")


@pytest.mark.parametrize(
    ("changes", "parts", "said"),
    [
        (
            {"eval_every": 0},
            PARTS,
            "patience: a stop rule without a held-out score; found 3, and eval_every is 0. Try --set",
        ),
        ({}, NONE_HELD_OUT, "found 3, and the task arithmetic has 0 held-out items"),
    ],
)
def test_patience_that_could_never_end_the_run_is_refused(
    changes: dict[str, Any], parts: Any, said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        train(config(patience=3, **changes), parts, folder=tmp_path / "run")
    assert said in str(caught.value)
    assert not (tmp_path / "run").exists()
    train(config(**changes, steps=1), parts, folder=tmp_path / "run")


def row(question: str, answer: str, **more: object) -> dict[str, object]:
    return {"question": question, "answer": answer, **more}


def test_two_rows_with_one_id_are_an_error_that_names_both() -> None:
    rows = [row("1+1", "2", id="a"), row("1+2", "3", id="b"), row("1+3", "4", id="a"), row("1+4", "5", id="a")]
    with pytest.raises(InputError) as caught:
        items_of(rows, COLUMNS, "data.jsonl")
    assert [(p.where, p.found) for p in caught.value.problems] == [
        ("data.jsonl row 3 and row 1", "'a'"), ("data.jsonl row 4 and row 1", "'a'"),
    ]  # fmt: skip
    # a number as id, and the number of a row without one, are the same
    with pytest.raises(InputError, match="row 2 and row 1: two rows with one id; found '1'"):
        items_of([row("1+1", "2", id=1), row("1+2", "3")], COLUMNS, "data.jsonl")
    assert [i.id for i in items_of([row("1", "1", id=None), row("2", "2", id=None)], COLUMNS, "x")] == ["0", "1"]


def test_questions_that_repeat_are_counted() -> None:
    rows = [row("1+1", "2"), row("1+2", "3"), row("1+1", "2"), row("1+1", "3"), row("1+2", "3")]
    unlike, same = repeats(items_of(rows, COLUMNS, "d.jsonl"), "d.jsonl")
    assert unlike == (
        "d.jsonl: 1 of 5 rows ask the question of an earlier row and expect another answer (rows 1 and 4): one of "
        "the two is called wrong"
    )
    assert same == (
        "d.jsonl: 2 of 5 rows repeat question and answer of an earlier row (rows 1 and 3, 2 and 5): they are asked "
        "more often than others"
    )
    assert repeats(items_of(rows[:2], COLUMNS, "d.jsonl"), "d.jsonl") == ()
    many = repeats(items_of([row("1", "1")] * 9, COLUMNS, "d.jsonl"), "d.jsonl")
    assert "8 of 9 rows" in many[0]
    assert "1 and 6, ...)" in many[0]


def test_the_command_line_tells_it_before_the_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_thread()
    monkeypatch.chdir(tmp_path)
    rows = [row(f"{i}+1=", str(i + 1)) for i in range(10, 14)] + [row("10+1=", "12")]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    task = "dataset:path=d.jsonl,held_out_percent=0,verifier=numeric,system=no,max_tokens=8"
    args = ["train", "--task", task, "--steps", "1", "--set", "prompts=2", "--no-vitals", "--out", "run"]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("step 1/1"))
    notices = [line for line in lines[:first] if line.startswith("notice: ")]
    assert [n.split(":")[1].strip() for n in notices] == ["d.jsonl", "no held-out score"]
    assert "held_out_path=FILE" in notices[1]
    assert [f"notice: {t}" for t in told(tmp_path / "run")] == notices
