"""Console text, CSV, JSON documents, notebooks and parquet: what is a record and what is not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rlvitals.errors import InputError
from rlvitals.ingest import load
from rlvitals.ingest.readers.console import parse, parse_record
from rlvitals.ingest.readers.csv import looks_like_table
from rlvitals.ingest.readers.notebook import column_name
from rlvitals.ingest.values import number


@pytest.mark.parametrize(
    ("value", "key", "want"),
    [
        (True, "", 1.0),
        ("8e-06", "", 8e-06),
        ("5/212", "global_step/max_steps", 5.0),
        ("5/10", "accuracy", 0.5),
        ("2.28%", "", 0.0228),
        ("1,234", "", 1234.0),
        ("np.float64(0.25)", "", 0.25),
        ("tensor(0.5, device='cuda:0')", "", 0.5),
        ("-Infinity", "", -np.inf),
        ("", "", None),
        ("6s", "", None),
        ("1" * 100, "", None),
        (None, "", None),
        ([1], "", None),
        (10**400, "", np.inf),
    ],
)
def test_number(value: object, key: str, want: float | None) -> None:
    assert number(value, key) == (want if want is None else pytest.approx(want, rel=1e-12))


def test_python_dict_line_with_numpy_nan_and_prefix() -> None:
    line = "INFO step 12: {'loss': nan, 'reward': np.float64(0.5), 'kl': '1e-3', 'tags': ['a'], 'ok': True}"
    style, record = parse_record(line)
    assert style == "dict"
    assert record is not None
    assert (record["step"], record["reward"], record["kl"]) == (12, 0.5, "1e-3")
    assert np.isnan(number(record["loss"]) or 0.0)


def test_verl_line_with_and_without_numpy() -> None:
    _, record = parse_record("step:3 - actor/entropy:0.25 - critic/score/mean:np.float64(-0.5) - timing_s/gen:1.0 - x:")
    assert record == {"step": 3, "actor/entropy": 0.25, "critic/score/mean": -0.5, "timing_s/gen": 1.0}


def test_pairs_line_of_the_chapter_scripts() -> None:
    _, record = parse_record("[Step 7/500] loss=-0.5 reward_avg=0.25 tokens/sec=12.5 avg_resp_len=30")
    assert record is not None
    assert (record["step"], record["total_steps"]) == (7, 500)
    assert number(record["loss"]) == -0.5
    assert number(record["reward_avg"]) == 0.25


@pytest.mark.parametrize(
    "line",
    [
        "Starting GRPO training...  Reward weights: accuracy=0.7, grounding=0.25",
        "we saw reward: 0.9 and loss: 0.1 yesterday",
        "ray init kwargs: {'num_cpus': 8, 'num_gpus': 1}",
        "This model supports tasks: {'generate', 'reward', 'score'}",
        "step 3 of the recipe: add salt",
        "  5%|5 | 1/20 [00:01<00:27,  1.43s/it]",
        "{'reward': __import__('os').system('true'), 'loss': 1, 'step': 2}",
    ],
)
def test_text_that_only_looks_like_metrics(line: str) -> None:
    assert parse_record(line)[1] is None


def _dict_line(i: int) -> str:
    return str(
        {"loss": 0.1 * i, "reward": 0.01 * i, "reward_std": 0.2, "completion_length": 50.0 + i, "epoch": 0.01 * i}
    )


def test_bars_with_bare_carriage_returns_give_the_steps(tmp_path: Path) -> None:
    text = "  0%|          | 0/100 [00:00<?, ?it/s]"
    for i in range(1, 5):
        text += f"\r {i}%|x         | {i * 5}/100 [00:10<02:00,  1.0s/it]\r          \r{_dict_line(i)}\n"
    path = tmp_path / "train.log"
    path.write_text(text)
    assert load(path).step.tolist() == [5, 10, 15, 20]


def test_buffered_bars_give_the_interval_of_a_finished_run(tmp_path: Path) -> None:
    bars = "".join(f"\r {i}%|x| {i}/43 [00:10<02:00,  1.0s/it]" for i in range(1, 44))
    rows = "\n".join(_dict_line(i) for i in range(1, 9))
    path = tmp_path / "train.log"
    path.write_text(bars + "\n" + rows + "\n" + str({"train_runtime": 5.0, "train_loss": 0.1, "epoch": 1.0}) + "\n")
    assert load(path).step.tolist() == [5, 10, 15, 20, 25, 30, 35, 40]


def test_colours_and_ray_prefixes() -> None:
    lines = [
        (1, "\x1b[36m(TaskRunner pid=16623)\x1b[0m step:1 - critic/score/mean:0.5 - actor/lr:1e-06\x1b[32m [x]\x1b[0m")
    ]
    table = parse(lines, "x.log")
    assert table.columns["critic/score/mean"].tolist() == [0.5]


@pytest.mark.parametrize(
    ("tail", "detail"),
    [
        (
            ["Traceback (most recent call last):", "  File 'x', line 1", "ValueError: bad reward"],
            "an exception: ValueError",
        ),
        (["torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"], "out of memory"),
        (["slurmstepd: error: *** JOB 1 CANCELLED AT 2026 DUE TO TIME LIMIT ***"], "a signal"),
        (["Killed"], "a signal"),
    ],
)
def test_crash_at_the_end(tmp_path: Path, tail: list[str], detail: str) -> None:
    path = tmp_path / "train.log"
    path.write_text("\n".join([*(_dict_line(i) for i in range(1, 4)), *tail]) + "\n")
    events = load(path).events
    assert [(e.kind.value, e.step) for e in events] == [("crash", 3)]
    assert detail in events[0].detail


def test_an_exception_that_was_survived_is_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    trace = ["Traceback (most recent call last):", "ValueError: upload failed"]
    path.write_text("\n".join([_dict_line(1), *trace, _dict_line(2), _dict_line(3)]) + "\n")
    assert load(path).events == ()


def test_csv_empty_cells_and_repeated_header(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text(
        "step,reward,kl,eval_acc\n1,0.5,0.1,\n2,0.6,,40.0\nstep,reward,kl,eval_acc\n3,0.7,nan,\n4,0.8,0.2,50\n5,0."
    )
    run = load(path)
    assert run.step.tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(run.columns["kl_ref"], [0.1, np.nan, np.nan, 0.2, np.nan])
    assert run.columns["nonfinite/kl_ref"].tolist()[2] == 1.0
    assert run.evals["eval"].score.tolist() == [0.4, 0.5]


@pytest.mark.parametrize("delimiter", ["\t", ";", "|"])
def test_other_delimiters(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "metrics.csv"
    rows = [["step", "reward", "kl"], *([str(s), f"{s / 10}", "0.01"] for s in range(1, 6))]
    path.write_text("\n".join(delimiter.join(row) for row in rows))
    assert load(path).columns["reward_mean"].tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]


def test_prose_with_commas_is_no_table() -> None:
    assert not looks_like_table(b"Hello there, this is text.\nIt has, some, commas.\nAnd more lines\n")


def test_json_documents(tmp_path: Path) -> None:
    rows = [{"step": s, "reward": s / 10, "kl": 0.01} for s in (1, 2, 3)]
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    for name, value in {
        "array": rows,
        "state": {"log_history": rows, "max_steps": 50, "logging_steps": 1},
        "columns": columns,
        "nested": {"run": "x", "history": rows},
    }.items():
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(value, indent=2))
        run = load(path)
        assert run.columns["reward_mean"].tolist() == [0.1, 0.2, 0.3], name
    state = load(tmp_path / "state.json")
    assert state.config.planned_steps == 50
    assert state.config.sources["planned_steps"] == "state.json: max_steps"


def test_cut_off_json_is_rescued(tmp_path: Path) -> None:
    rows = [{"step": s, "reward": s / 10, "kl": 0.01} for s in (1, 2, 3, 4)]
    text = json.dumps({"log_history": rows}, indent=2)
    path = tmp_path / "trainer_state.json"
    path.write_text(text[: text.rfind("0.4")])
    run = load(path)
    assert run.step.tolist() == [1, 2, 3]
    assert any("cut off" in n.text for n in run.notes)


def test_nested_records_of_file_sinks(tmp_path: Path) -> None:
    path = tmp_path / "exp.jsonl"
    rows = [{"step": s, "data": {"critic/score/mean": s / 10, "response_length/clip_ratio": 0.0}} for s in (1, 2)]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    assert load(path).columns["reward_mean"].tolist() == [0.1, 0.2]
    nested = tmp_path / "nested.jsonl"
    nested.write_text(
        "".join(json.dumps({"step": s, "train": {"reward": {"mean": s / 10}, "kl": 0.1}}) + "\n" for s in (1, 2))
    )
    assert load(nested).columns["reward_mean"].tolist() == [0.1, 0.2]


def _html(header: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{cell}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div><table border="1"><thead><tr style="x">{head}</tr></thead><tbody>{body}</tbody></table><p></div>'


def _notebook(path: Path, outputs: list[dict[str, object]]) -> Path:
    cells = [{"cell_type": "code", "source": ["trainer.train()"], "outputs": outputs, "metadata": {}}]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


def test_notebook_tables(tmp_path: Path) -> None:
    sft = _html(["Step", "Training Loss"], [["5", "1.2"], ["10", "0.9"]])
    header = ["Step", "Training Loss", "reward", "reward_std", "completion_length", "kl", "rewards / check_answer"]
    rl = _html(header, [[str(s), "0.0", f"{s / 10}", "0.5", "120.5", "0.001", "No Log"] for s in (1, 2, 3)])
    outputs: list[dict[str, object]] = [
        {"output_type": "display_data", "data": {"text/html": [sft], "text/plain": ["x"]}},
        {"output_type": "stream", "name": "stdout", "text": ["Unsloth: Fast Qwen3 patching\n", "hello\n"]},
        {"output_type": "display_data", "data": {"text/html": rl}},
        {"output_type": "error", "ename": "KeyboardInterrupt", "evalue": "", "traceback": []},
    ]
    run = load(_notebook(tmp_path / "nb.ipynb", outputs))
    assert run.step.tolist() == [1, 2, 3]
    assert run.columns["reward_mean"].tolist() == [0.1, 0.2, 0.3]
    assert run.columns["loss"].tolist() == [0.0, 0.0, 0.0]
    assert any("supervised" in n.text for n in run.notes)
    assert [e.kind.value for e in run.events] == ["crash"]


def test_notebook_streams_and_text_tables(tmp_path: Path) -> None:
    stream = {"output_type": "stream", "name": "stdout", "text": [_dict_line(i) + "\n" for i in (1, 2)]}
    assert load(_notebook(tmp_path / "a.ipynb", [stream])).columns["reward_mean"].tolist() == [0.01, 0.02]
    plain = "   Step  reward  kl\n0  1     0.5     0.01\n1  2     0.6     0.02\n"
    table: dict[str, object] = {"output_type": "execute_result", "data": {"text/plain": plain}}
    assert load(_notebook(tmp_path / "b.ipynb", [table])).columns["reward_mean"].tolist() == [0.5, 0.6]


def test_column_names_of_notebook_tables() -> None:
    assert column_name("rewards / format / mean") == "rewards/format/mean"
    assert column_name("Training Loss") == "loss"


def test_parquet(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "metrics.parquet"
    rows = "SELECT i AS step, i / 10.0 AS reward, CASE WHEN i > 1 THEN 0.1 END AS kl FROM range(1, 4) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{path}'")
    run = load(path)
    assert run.columns["reward_mean"].tolist() == [0.1, 0.2, 0.3]
    np.testing.assert_array_equal(run.columns["kl_ref"], [np.nan, 0.1, 0.1])


def test_text_without_metrics_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "essay.txt"
    path.write_text("A reward of 5 was promised.\nThe loss: 3 sheep. Step by step they went.\n" * 50)
    with pytest.raises(InputError, match="no metric rows"):
        load(path)
