"""Held-out scores kept elsewhere: tables, JSON, lm-eval and lighteval folders, and clear errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rlvitals.errors import InputError
from rlvitals.ingest.evals import read_evals
from rlvitals.schema import Evals


def values(evals: Evals) -> list[tuple[int, float]]:
    return [(int(s), round(float(v), 9)) for s, v in zip(evals.step, evals.score, strict=True)]


def test_csv_sorts_and_takes_the_last_of_a_step(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("\ufeffStep,Accuracy,stderr\r\n100,0.5,0.02\r\n50,0.4,\r\n100,0.6,0.03\r\n150,,\r\n")
    evals = read_evals("math", file)
    assert values(evals) == [(50, 0.4), (100, 0.6)]
    assert np.isnan(evals.stderr[0])
    assert evals.stderr[1] == 0.03
    assert (evals.name, evals.key, evals.items, evals.metric) == ("math", "Accuracy", 0, "accuracy")


def test_percent_and_number_of_items(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("step,score,n\n0,0,400\n10,50,400\n")
    evals = read_evals("math", file)
    assert values(evals) == [(0, 0.0), (10, 0.5)]
    assert evals.stderr.tolist() == [0.0, 0.025]
    assert evals.items == 400


def test_json_and_jsonl(tmp_path: Path) -> None:
    rows = [{"step": 1, "score": 0.25}, {"step": 2, "score": "30%"}]
    lines = tmp_path / "a.jsonl"
    lines.write_text("\n".join(map(json.dumps, rows)) + '\n{"step": 3, "sc')
    array = tmp_path / "a.json"
    array.write_text(json.dumps(rows))
    assert values(read_evals("x", lines)) == values(read_evals("x", array)) == [(1, 0.25), (2, 0.3)]


def test_a_held_out_reward_is_no_share(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("step,reward\n1,2.5\n")
    evals = read_evals("x", file)
    assert (values(evals), evals.metric) == ([(1, 2.5)], "reward")


def test_lm_eval_folder(tmp_path: Path) -> None:
    for step, score in ((100, 0.5), (50, 0.4)):
        folder = tmp_path / f"checkpoint-{step}" / "model"
        folder.mkdir(parents=True)
        results = {
            "results": {
                "gsm8k": {"alias": "gsm8k", "exact_match,strict-match": score, "exact_match_stderr,strict-match": 0.01},
                "arc": {"acc,none": 0.9, "acc_stderr,none": 0.02},
            },
            "n-samples": {"gsm8k": {"original": 1319, "effective": 1319}},
        }
        (folder / "results_2026-01-01T10-00-00.json").write_text(json.dumps(results))
    evals = read_evals("gsm8k", tmp_path)
    assert values(evals) == [(50, 0.4), (100, 0.5)]
    assert evals.stderr.tolist() == [0.01, 0.01]
    assert (evals.items, evals.key) == (1319, "gsm8k/exact_match,strict-match")
    with pytest.raises(InputError, match="Several tasks in the results"):
        read_evals("held-out", tmp_path)


def test_lighteval_folder(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "global_step_20"
    folder.mkdir(parents=True)
    row = {"extractive_match": 0.3, "extractive_match_stderr": 0.05}
    results = {"results": {"lighteval|aime24|0": row, "all": row}, "config_general": {"model_name": "m"}}
    (folder / "results_2026-01-01.json").write_text(json.dumps(results))
    evals = read_evals("aime24", tmp_path)
    assert (values(evals), evals.stderr.tolist()) == ([(20, 0.3)], [0.05])


@pytest.mark.parametrize(("name", "text", "expected"), [
    ("a.csv", "epoch,loss\n1,2\n", "No step in the held-out file"),
    ("a.csv", "epoch,loss\n1,2\n", "No score in the held-out file"),
    ("a.csv", "step,score\n1.5,0.2\n", "a.csv, line 2: Not a step and a score; found step='1.5', score='0.2'"),
    ("a.csv", "step,score\n", "No scores in the held-out file"),
    ("a.json", "{", "Not valid JSON"),
    ("a.jsonl", '{"step": 1\n{"step": 2, "score": 1}\n', "a.jsonl, line 1"),
    ("a.xlsx", "", "Unknown format of held-out scores"),
    ("a.json", '{"results": {"t": {"acc,none": 0.5}}}', "No training step in the name"),
    ("step-5.json", '{"results": {"t": {"perplexity": 5}}}', "No known metric in the results"),
])  # fmt: skip
def test_errors(tmp_path: Path, name: str, text: str, expected: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as caught:
        read_evals("x", tmp_path / name)
    assert expected in str(caught.value)


def test_missing_file_and_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such held-out file"):
        read_evals("x", tmp_path / "none.csv")
    with pytest.raises(InputError, match="No held-out results in the folder"):
        read_evals("x", tmp_path)


def test_rows_per_item_become_their_mean(tmp_path: Path) -> None:
    file = tmp_path / "rescored.jsonl"
    marks = {10: [1.0, 0.0, None, 1.0, 1.0], 20: [0.0, 0.0, 1.0, 0.0, 0.0]}
    rows = [
        {"step": step, "set": "heldout", "item": f"i{n}", "reward": 2.0, "correct": mark, "completion": "x"}
        for step, found in marks.items()
        for n, mark in enumerate(found)
    ]
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    evals = read_evals("again", file)
    assert values(evals) == [(10, 0.75), (20, 0.2)]
    assert evals.stderr.tolist() == pytest.approx([(0.75 * 0.25 / 4) ** 0.5, (0.2 * 0.8 / 5) ** 0.5])
    assert (evals.items, evals.metric, evals.key) == (5, "accuracy", "correct")


def test_rows_per_item_with_rewards_alone_and_of_several_sets(tmp_path: Path) -> None:
    file = tmp_path / "evals.jsonl"
    rows = [{"step": 1, "set": s, "item": i, "reward": r} for s, i, r in (("a", 0, 1.5), ("a", 1, 0.5), ("b", 0, 9.0))]
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    evals = read_evals("a", file)
    assert (values(evals), evals.metric) == ([(1, 1.0)], "reward")
    with pytest.raises(InputError, match=r"Several sets in the held-out file; found a, b.*--evals SET="):
        read_evals("c", file)
    file.write_text(json.dumps({"step": 1, "item": 0, "correct": None}) + "\n")
    with pytest.raises(InputError, match="No scores in the held-out file"):
        read_evals("c", file)
