"""A folder of several runs is never read as one, and what lies in one run's folder never counts to another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rlvitals.cli.main import app
from rlvitals.errors import SeveralRuns
from rlvitals.ingest import load
from rlvitals.ingest.trajectories import opened
from rlvitals.live.follow import Follower
from tests.ingest import test_tensorboard
from tests.rollouts.dumps import rollouts, verl

runner = CliRunner()


def rewards(seed: int, rows: int = 40) -> list[float]:
    """Return rewards float[rows] in steps of 1/64."""
    return (np.random.default_rng(seed).integers(8, 56, rows) / 64).tolist()


def lines(values: Sequence[float], first: int = 1, *, more: bool = False) -> list[dict[str, float]]:
    """Return rows of a TRL log; `more` adds metrics, as a richer log has."""
    extra = {"entropy": 0.5, "grad_norm": 0.2, "loss": 0.0, "learning_rate": 1e-6} if more else {}
    return [
        {"step": s, "reward": r, "reward_std": 0.3, "kl": 0.01, "completions/mean_length": 9.0} | extra
        for s, r in enumerate(values, first)
    ]


def log(path: Path, values: Sequence[float], first: int = 1, *, more: bool = False) -> Path:
    """Write a log: trainer_state.json as the Trainer does, JSON lines else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = lines(values, first, more=more)
    state = path.name == "trainer_state.json"
    path.write_text(json.dumps({"log_history": rows}) if state else "".join(json.dumps(r) + "\n" for r in rows))
    return path


def make_run(folder: Path, seed: int, *, group_size: int = 8) -> None:
    """Write a run as the fault lab leaves it: our own log with rollouts and settings, the same in TRL's words."""
    log(folder / "run" / "metrics.jsonl", rewards(seed), more=True)
    verl(folder / "run" / "rollouts", rollouts(steps=(1, 2), groups=seed))
    (folder / "run" / "config.json").write_text(json.dumps({"num_generations": group_size, "seed": seed}))
    (folder / "run" / "checkpoint-20").mkdir()
    (folder / "run" / "checkpoint-20" / "model.safetensors").write_bytes(b"x")
    (folder / "result.json").write_text("{}")
    log(folder / "layouts" / "trl" / "trainer_state.json", rewards(seed))


def names(folder: Path) -> list[str]:
    with pytest.raises(SeveralRuns) as caught:
        load(folder)
    return [path.relative_to(folder).as_posix() for path in caught.value.runs]


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    for seed, name in enumerate(("control", "fault", "healthy"), 1):
        make_run(tmp_path / name / "default" / f"seed-{seed}", seed)
    return tmp_path


COMMANDS = ("check", "check --follow", "rollback", "metrics", "rollouts", "record", "audit score")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_a_folder_of_runs_and_names_them(lab: Path, command: str) -> None:
    done = runner.invoke(app, [*command.split(), str(lab)])
    said = " ".join(done.output.split())
    assert done.exit_code == 2
    assert "the folder holds 3 runs; found control, fault, healthy" in said
    assert f"such as {lab}/control, or see all with: rlvitals check --each {lab}" in said


def test_each_examines_every_one(lab: Path) -> None:
    done = json.loads(runner.invoke(app, ["check", "--each", str(lab), "--format", "json"]).stdout)
    assert len(done) == 3


def test_each_goes_into_a_folder_that_turns_out_to_hold_several(lab: Path) -> None:
    (lab / "fault" / "config.json").write_text("{}")  # a mark of a run in a folder of two
    make_run(lab / "fault" / "other", 7)
    done = json.loads(runner.invoke(app, ["check", "--each", str(lab), "--format", "json"]).stdout)
    found = [Path(row["path"]).relative_to(lab).as_posix() for row in done if "diagnosis" in row]
    assert sorted(found) == ["control/default/seed-1", "fault/default", "fault/other", "healthy/default/seed-3"]


def test_a_run_and_its_copies_are_one_and_the_one_with_the_rollouts_is_read(lab: Path) -> None:
    folder = lab / "fault" / "default" / "seed-2"
    run = load(folder)
    assert run.sources == (str(folder / "run" / "metrics.jsonl"),)
    assert run.rollouts is not None
    assert run.rollouts.count == 16
    assert (run.config.group_size, [e.step for e in run.events]) == (8, [20])
    assert opened(folder).count == opened(lab / "fault").count == opened(folder / "run").count


def test_a_folder_with_its_own_log_takes_nothing_of_the_runs_below_it(tmp_path: Path) -> None:
    log(tmp_path / "metrics.jsonl", rewards(1))
    verl(tmp_path / "rollouts", rollouts(steps=(1,)))
    make_run(tmp_path / "old", 2, group_size=4)
    run = load(tmp_path)
    assert run.sources == (str(tmp_path / "metrics.jsonl"),)
    assert run.rollouts is not None
    assert {path.parent for path in run.rollouts.files} == {tmp_path / "rollouts"}
    assert (run.config.group_size, run.events) == (None, ())
    assert opened(tmp_path).files == run.rollouts.files


def test_runs_that_part_late_are_two(tmp_path: Path) -> None:
    same, other = rewards(1), rewards(2)
    log(tmp_path / "a" / "log.jsonl", same)
    log(tmp_path / "b" / "log.jsonl", [*same[:35], *other[35:]])
    assert names(tmp_path) == ["a", "b"]


def test_two_logs_of_one_trainer_in_one_folder_are_two(tmp_path: Path) -> None:
    for name, seed in (("lr1", 1), ("lr2", 2)):
        log(tmp_path / "project" / f"{name}.jsonl", rewards(seed))
    assert names(tmp_path) == ["project/lr1.jsonl", "project/lr2.jsonl"]
    assert [p.name for p in tmp_path.iterdir()] == ["project"]
    assert names(tmp_path / "project") == ["lr1.jsonl", "lr2.jsonl"]


def test_runs_known_by_their_tracker_alone_are_two(tmp_path: Path) -> None:
    for name, level in (("a", 0.0), ("b", 0.25)):
        file = tmp_path / name / "runs" / "Nov29_10-00-00_h" / "events.out.tfevents.1.h.1.0"
        test_tensorboard.write(file, test_tensorboard.trl_rows(1, 40, level))
    assert names(tmp_path) == ["a", "b"]


def test_runs_kept_as_one_json_file_each_are_two(tmp_path: Path) -> None:
    for seed, name in enumerate("ab", 1):
        log(tmp_path / name / "history.json", rewards(seed)).write_text(json.dumps(lines(rewards(seed))))
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("rank_0/log.jsonl", "rank_1/log.jsonl"),
        ("log_rank0.jsonl", "log_rank1.jsonl"),
        ("train/log.jsonl", "eval/log.jsonl"),
        ("metrics.jsonl", "eval_metrics.jsonl"),
    ],
)
def test_ranks_and_evaluations_are_no_runs_of_their_own(tmp_path: Path, one: str, other: str) -> None:
    log(tmp_path / one, rewards(1))
    log(tmp_path / other, rewards(2))
    assert load(tmp_path).rows == 40


def test_a_restart_and_an_aborted_start_are_no_runs_of_their_own(tmp_path: Path) -> None:
    log(tmp_path / "restarted" / "2026-11-29" / "log.jsonl", rewards(1, 60))
    log(tmp_path / "restarted" / "2026-11-30" / "log.jsonl", rewards(2, 40), first=41)
    assert load(tmp_path / "restarted").rows == 60
    log(tmp_path / "aborted" / "2026-11-29" / "log.jsonl", rewards(1, 9))
    verl(tmp_path / "aborted" / "2026-11-29" / "rollouts", rollouts(steps=(1,)))
    log(tmp_path / "aborted" / "2026-11-30" / "log.jsonl", rewards(2, 40))
    run = load(tmp_path / "aborted")
    assert (run.rows, run.rollouts) == (40, None)


def test_a_follower_does_not_wait_for_a_folder_of_runs(lab: Path) -> None:
    with pytest.raises(SeveralRuns):
        Follower(lab).poll()
