"""Broken dumps: a clear error, or rows that are left out, counted and told. Nothing is lost, nothing is executed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rlvitals.errors import InputError
from rlvitals.rollouts.counting import count
from rlvitals.rollouts.dump import open_rollouts
from rlvitals.rollouts.readers.texts import MAX_TEXT
from rlvitals.rollouts.skips import Skips
from rlvitals.rollouts.table import Batch
from tests.rollouts.dumps import jsonl, parquet, rollouts, verl


def read(path: Path, skips: Skips | None = None) -> Batch:
    return Batch.joined(list(open_rollouts(path).scan(skips=skips)))


def test_broken_lines_cost_themselves_alone(tmp_path: Path) -> None:
    folder = verl(tmp_path / "dump", rollouts((1,)))
    file = folder / "1.jsonl"
    whole = file.read_bytes()
    broken = (
        b'log text in the middle\n{"input": "\xff\xfe", "output": "x", "score": 1.0, "step": 1}\n[1, 2]\n{"input": "cut'
    )
    file.write_bytes(whole + broken)
    skips = Skips()
    assert read(folder, skips).rows == 8
    assert skips.rollouts == 4
    assert skips.notes()[0].line == 9


def test_mixed_types_and_late_keys(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"input": "q", "output": "a", "score": 1, "step": 1},
        {"input": "q", "output": "b", "score": "0.5", "step": 1.0},
        {"input": "q", "output": "c", "score": None, "step": "1"},
        {"input": "q", "output": ["list"], "score": True, "step": 1},
        {"input": "q", "output": "e", "score": {"a": 1}, "step": 1, "acc": True},
    ]
    path = jsonl(tmp_path / "1.jsonl", rows)
    path.write_text(path.read_text() + '{"input": "q", "output": "f", "score": NaN, "step": 1}\n')
    found = read(path)
    assert found.rows == 6
    assert found.number("reward")[:2].tolist() == [1.0, 0.5]
    assert np.isnan(found.number("reward")[[2, 4, 5]]).all()
    assert found.number("reward")[3] == 1.0
    assert found.number("correct")[4] == 1.0
    assert np.isnan(found.number("correct")[0])


def test_a_truncated_parquet_is_left_out_and_an_only_one_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "rollouts"
    for step in (1, 2):
        parquet(folder / f"step_{step}.parquet", rollouts((step,)), tmp_path)
    (folder / "step_2.parquet").write_bytes((folder / "step_2.parquet").read_bytes()[:-200])
    skips = Skips()
    assert set(read(folder, skips).integer("step").tolist()) == {1}
    assert skips.notes()[0].text == "files that can't be read: left out"
    with pytest.raises(InputError, match="was cut off: its end is missing"):
        open_rollouts(folder / "step_2.parquet")


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.parquet", b"PAR1 and then it stops", "its end is missing"),
        ("a.jsonl", b"", "it is empty"),
        ("a.jsonl", b"\x00\x01\x02", "it is binary"),
    ],
)
def test_a_file_that_is_none_says_why(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=why):
        open_rollouts(tmp_path / name)


def test_missing_columns_are_absent_and_not_zero(tmp_path: Path) -> None:
    rows = [{"step": 1, "reward": 1.0, "completion": "x"}, {"step": 1, "reward": None, "completion": "y"}]
    found = read(jsonl(tmp_path / "dump.jsonl", rows))
    assert np.isnan(found.number("reward")[1])
    assert not found.has("advantage")
    assert not found.has("group")
    series = count(open_rollouts(tmp_path / "dump.jsonl"))[0].series()
    assert series["rollouts/reward_mean"][1].tolist() == [1.0]
    assert "rollouts/zero_variance_frac" not in series


def test_a_very_long_completion_is_cut_and_told(tmp_path: Path) -> None:
    rows = [
        {"step": 1, "reward": 1.0, "completion": "x" * (MAX_TEXT + 5)},
        {"step": 1, "reward": 0.0, "completion": "y"},
    ]
    skips = Skips()
    found = read(jsonl(tmp_path / "dump.jsonl", rows), skips)
    assert [len(t) for t in found.text("completion")] == [MAX_TEXT, 1]
    assert (skips.notes()[0].count, skips.rollouts) == (1, 0)
    assert "1,000,000 characters" in skips.notes()[0].text


def test_a_hostile_file_name_is_only_a_name(tmp_path: Path) -> None:
    path = tmp_path / "a'); DROP TABLE rollouts; --.jsonl"
    jsonl(path, [{"step": 1, "reward": 1.0, "completion": "x'); DROP TABLE rollouts; --"}])
    assert read(path).text("completion").tolist() == ["x'); DROP TABLE rollouts; --"]


def test_keys_with_quotes_are_only_keys(tmp_path: Path) -> None:
    row = {"input": "q", "output": "a", "score": 1.0, "step": 1, 'x" FROM y; --': 2.0, "it's": 3.0}
    found = read(jsonl(tmp_path / "1.jsonl", [row, row]))
    assert found.parts() == ("it's", 'x" FROM y; --')


def test_what_is_no_dump_is_refused_with_its_keys(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "log.jsonl", [{"step": 1, "loss": 0.5}])
    with pytest.raises(InputError, match=r"keys: loss, step.*--map"):
        open_rollouts(path)
    with pytest.raises(InputError, match="no such file"):
        open_rollouts(tmp_path / "nothing")


def test_records_of_another_shape_are_counted(tmp_path: Path) -> None:
    good = {
        "training_step": 1,
        "episode_id": "t:0",
        "termination_reason": "env_done",
        "trajectories": [{"reward": 1.0}],
    }
    folder = tmp_path / "episodes/train_step_1_epoch_0"
    folder.mkdir(parents=True)
    for n, record in enumerate((good, good | {"trajectories": [1]}, [1, 2])):
        (folder / f"episode_{n}.json").write_text(json.dumps(record))
    skips = Skips()
    assert read(tmp_path, skips).number("reward").tolist() == [1.0]
    assert skips.rollouts == 3
