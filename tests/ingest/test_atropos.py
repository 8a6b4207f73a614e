"""Atropos: W&B keys of environments, with and without a prefix, and dumps of scored groups."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlvitals.ingest import load
from rlvitals.ingest.atropos import ADAPTER
from rlvitals.ingest.registry import pick
from tests.ingest.tables import first, mapped

ROW = {
    "_step": 5,
    "train/percent_correct": 0.4,
    "train/completion_lengths": 300.0,
    "train/completion_lengths_p95": 0.03,
    "train_perf/task_duration_mean": 2.0,
    "eval/percent_correct": 0.5,
}
PROMPT = [-100, -100]


def test_keys_of_one_row_with_and_without_the_environments_name() -> None:
    want = {"success_frac": 0.4, "length_mean": 300.0, "truncated_frac": 0.03}
    result = mapped(ADAPTER, [ROW])
    assert first(result) == want
    assert [(e.name, float(e.values[0])) for e in result.evals] == [("eval", 0.5)]
    assert result.unrecognised == ()
    named = {("gsm8k_" + key if key.startswith("train") else key): value for key, value in ROW.items()}
    assert pick(frozenset(named)).info.name == "Atropos"
    assert first(mapped(ADAPTER, [named])) == want


def test_a_dump_of_groups_is_read_group_by_group(tmp_path: Path) -> None:
    groups = [
        {"tokens": [[1, 2, 3, 4], [1, 2, 3]], "masks": [[*PROMPT, 3, 4], [*PROMPT, 3]], "scores": [1.0, 0.0],
         "inference_logprobs": [[1.0, 1.0, -0.5, -0.1], [1.0, 1.0, -0.3]]},
        {"tokens": [[1, 2, 3], [1, 2, 3]], "masks": [[*PROMPT, 3], [*PROMPT, 3]], "scores": [-1.0, -1.0]},
    ]  # fmt: skip
    path = tmp_path / "gsm8k_1.jsonl"
    path.write_text("".join(json.dumps(group) + "\n" for group in groups))
    run = load(path)
    assert run.trainer.name == "Atropos"
    assert run.step.tolist() == [1, 2]
    logged = [n for n in run.columns if n != "surprisal_mean" and run.provenance[n].key != "rollouts"]
    assert {n: run.columns[n].tolist() for n in logged} == {
        "reward_mean": [0.5, -1.0],
        "reward_std": [0.5, 0.0],
        "reward_min": [0.0, -1.0],
        "reward_max": [1.0, -1.0],
        "zero_variance_frac": [0.0, 1.0],
        "length_mean": [1.5, 1.0],
        "length_min": [1.0, 1.0],
        "length_max": [2.0, 1.0],
    }
    assert run.columns["surprisal_mean"][0] == pytest.approx(0.3)
    assert run.notes[0].text == "a dump of 2 scored groups without a training step: numbered in file order"


def test_a_record_that_is_no_group_shifts_no_rollouts(tmp_path: Path) -> None:
    groups = [
        {"tokens": [[1, 2], [1, 2]], "masks": [[-100, 2], [-100, 2]], "scores": [score, 0.0]} for score in (1.0, 0.5)
    ]
    bad = ({"scores": "none"}, {"scores": [None, None], "tokens": [[1]], "masks": 3}, {"step": 1})
    path = tmp_path / "gsm8k_1.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in (groups[0], *bad, groups[1])))
    run = load(path)
    assert run.step.tolist() == [1, 2]
    for name in ("reward_max", "rollouts/reward_max"):
        assert run.columns[name].tolist() == [1.0, 0.5], name
    left_out = [n.count for n in run.notes if n.text == "records that are not as this dump writes them: left out"]
    assert left_out == [len(bad)]
