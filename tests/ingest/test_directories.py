"""Run folders as trainers leave them: what is read, what is left, what is added."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlvitals.errors import InputError, NotATrainingRun
from rlvitals.ingest import load


def rows(last: int) -> list[dict[str, object]]:
    return [
        {
            "step": s,
            "reward": s / 100,
            "reward_std": 0.2,
            "completion_length": 10.0 + s,
            "kl": 0.01 * s,
            "rewards/f": 0.1,
        }
        for s in range(1, last + 1)
    ]


def state(folder: Path, last: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": rows(last), "max_steps": 100}))


def test_newest_checkpoint_is_read_when_the_root_has_no_state(tmp_path: Path) -> None:
    for step in (9, 10, 20):
        state(tmp_path / "out" / f"checkpoint-{step}", step)
    run = load(tmp_path)
    assert run.rows == 20
    assert "read out/checkpoint-20/trainer_state.json" in run.notes[0].text
    assert [e.step for e in run.events if e.kind.value == "checkpoint"] == [9, 10, 20]


def test_root_state_wins_over_checkpoints(tmp_path: Path) -> None:
    state(tmp_path, 25)
    state(tmp_path / "checkpoint-30", 30)
    assert load(tmp_path).rows == 25


def test_console_log_adds_the_steps_after_the_last_checkpoint_and_the_crash(tmp_path: Path) -> None:
    state(tmp_path / "checkpoint-10", 10)
    lines = [str(row) for row in rows(14)]
    (tmp_path / "train.log").write_text("\n".join([*lines, "Traceback (most recent call last):", "RuntimeError: boom"]))
    run = load(tmp_path)
    assert run.rows == 14
    assert [(e.kind.value, e.step) for e in run.events] == [("checkpoint", 10), ("crash", 14)]
    assert "took later steps from train.log" in run.notes[0].text


def test_what_was_left_is_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows(9)))
    (tmp_path / "metrics.csv").write_text("step,reward,kl\n1,0.1,0.1\n2,0.2,0.1\n")
    (tmp_path / "config.json").write_text("{}")
    run = load(tmp_path)
    assert run.rows == 9
    assert run.notes[0].text == "read metrics.jsonl; left out metrics.csv"


def test_the_richest_of_several_logs_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows(3)))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows(30)))
    (tmp_path / "c.jsonl").write_text("".join(json.dumps({"question": "q", "id": i}) + "\n" for i in range(99)))
    assert load(tmp_path).rows == 30


def test_rollouts_and_completions_are_no_step_logs(tmp_path: Path) -> None:
    state(tmp_path, 5)
    (tmp_path / "completions").mkdir()
    (tmp_path / "completions" / "completions_00001.parquet").write_bytes(b"PAR1")
    (tmp_path / "completions.jsonl").write_text('{"step": 1, "reward": 99}\n' * 50)
    assert load(tmp_path).columns["reward_mean"].max() == 0.05


@pytest.mark.parametrize("folder", ["of-items.jsonl-run", "from.ipynb"])
def test_the_name_of_a_folder_says_nothing_of_the_files_in_it(tmp_path: Path, folder: str) -> None:
    state(tmp_path / folder, 7)
    assert load(tmp_path / folder).rows == 7


def test_a_folder_without_a_log(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(InputError, match="no log found"):
        load(tmp_path)


def test_a_folder_with_supervised_logs_only(tmp_path: Path) -> None:
    (tmp_path / "logging.jsonl").write_text('{"loss": 1.0, "token_acc": 0.5, "step": 1}\n' * 5)
    with pytest.raises(NotATrainingRun, match=r"logging\.jsonl"):
        load(tmp_path)


def test_settings_beside_the_run_map_keys_and_set_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rlvitals.toml").write_text('[map]\nreward_mean = "gold"\n[config]\ngroup_size = 16\n')
    (tmp_path / "log.jsonl").write_text(
        "".join(json.dumps({"step": s, "gold": s / 10, "kl": 0.1}) + "\n" for s in (1, 2))
    )
    run = load(tmp_path / "log.jsonl")
    assert run.columns["reward_mean"].tolist() == [0.1, 0.2]
    assert (run.config.group_size, run.config.sources["group_size"]) == (16, "user")


def test_scores_kept_elsewhere_become_evals(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows(5)))
    (tmp_path / "gold.csv").write_text("step,accuracy\n2,0.25\n4,0.5\n")
    run = load(tmp_path / "log.jsonl", evals={"gold": tmp_path / "gold.csv"})
    assert run.evals["gold"].step.tolist() == [2, 4]
    assert run.evals["gold"].score.tolist() == [0.25, 0.5]


def test_a_rollout_dump_is_averaged_per_step(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    lines = [
        {
            "step": s,
            "input": f"q{i // 2}",
            "output": "text",
            "score": float(i % 2) if i < 2 else 1.0,
            "data_source": "ab"[i // 2],
        }
        for s in (1, 2)
        for i in range(4)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = load(path)
    assert run.columns["reward_mean"].tolist() == [0.75, 0.75]
    assert run.columns["zero_variance_frac"].tolist() == [0.5, 0.5]
    assert run.columns["reward_family/a"].tolist() == [0.5, 0.5]


def test_a_single_file_takes_no_checkpoints_of_other_runs(tmp_path: Path) -> None:
    for run in ("a", "b"):
        state(tmp_path / run / "checkpoint-5", 5)
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows(9)))
    assert load(tmp_path / "a.jsonl").events == ()
    inside = load(tmp_path / "a" / "checkpoint-5" / "trainer_state.json")
    assert [(e.step, e.path) for e in inside.events] == [(5, "checkpoint-5")]


def test_remote_paths_through_fsspec() -> None:
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://runs/log.jsonl", "wb") as stream:
        stream.write("".join(json.dumps(r) + "\n" for r in rows(5)).encode())
    run = load("memory://runs/log.jsonl")
    assert (run.name, run.rows, run.events) == ("log.jsonl", 5, ())
    with pytest.raises(InputError, match="cannot read the remote file"):
        load("memory://runs/absent.jsonl")


def test_runs_are_named_after_their_folder(tmp_path: Path) -> None:
    state(tmp_path / "my-run" / "checkpoint-5", 5)
    assert load(tmp_path / "my-run").name == "my-run"
    assert load(tmp_path / "my-run" / "checkpoint-5" / "trainer_state.json").name == "my-run"
