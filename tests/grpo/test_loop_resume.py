"""A killed run goes on to the same trajectory bit for bit, with no step missing and none twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rlvitals.errors import InputError
from rlvitals.grpo import checkpoint
from rlvitals.grpo.evaluate import HeldOut
from rlvitals.grpo.loop import go_on, train
from rlvitals.grpo.run import Run, open_run
from tests.grpo.loops import PARTS, config, one_thread, rows

SCRIPT = """
import sys
from pathlib import Path
from rlvitals.grpo.loop import train
from tests.grpo.loops import PARTS, config, one_thread
one_thread()
train(config(steps=400), PARTS, folder=Path(sys.argv[1]))
"""


class Stop(Exception):
    pass


def stop_after(step: int) -> Any:
    def watch(run: Run, row: Mapping[str, float], held_out: HeldOut | None) -> None:
        if run.step == step:
            raise Stop

    return watch


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupted."""
    one_thread()
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(config(), PARTS, folder=folder)
    return folder


@pytest.mark.parametrize("at", [1, 3, 5])
def test_a_run_that_broke_off_goes_on_to_the_same_trajectory(whole: Path, tmp_path: Path, at: int) -> None:
    with pytest.raises(Stop):
        train(config(), PARTS, folder=tmp_path / "run", watch=[stop_after(at)])
    outcome = train(config(), PARTS, folder=tmp_path / "run", resume=True)
    assert outcome.complete
    assert rows(tmp_path / "run") == rows(whole)
    weights = [(f / "checkpoints/checkpoint-6/model.safetensors").read_bytes() for f in (whole, tmp_path / "run")]
    assert weights[0] == weights[1]


def test_rollouts_and_evaluations_are_there_once(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(Stop):
        train(config(), PARTS, folder=tmp_path / "run", watch=[stop_after(5)])
    train(config(), PARTS, folder=tmp_path / "run", resume=True)
    columns = '"step", "group", "index", prompt_id, reward, completion, "seed", trainer_logp'
    found = [
        duckdb.sql(f"SELECT {columns} FROM '{f}/rollouts/*.parquet' ORDER BY 1, 2, 3").fetchall()
        for f in (whole, tmp_path / "run")
    ]
    assert len(found[0]) == 6 * 16
    assert found[0] == found[1]
    evals = [(f / "evals.jsonl").read_text() for f in (whole, tmp_path / "run")]
    assert evals[0] == evals[1]
    assert evals[0].count("\n") == 3 * 4  # before the first step, after 3 and after 6


def test_sigkill_at_a_random_point(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder)], env=env, cwd=Path(__file__).parents[2])
    wanted = random.Random(time.time_ns()).randint(3, 12)
    deadline = time.monotonic() + 120
    while child.poll() is None and time.monotonic() < deadline:
        if (folder / "metrics.jsonl").exists() and len((folder / "metrics.jsonl").read_text().splitlines()) > wanted:
            break
        time.sleep(0.002)
    child.send_signal(signal.SIGKILL)
    child.wait()
    last = checkpoint.newest(folder)
    assert last is not None, wanted
    one_thread()
    end = last.step + 3
    train(config(steps=400), PARTS, folder=folder, resume=True, watch=[signal_after(end)])
    train(config(steps=end), PARTS, folder=tmp_path / "whole")
    resumed = rows(folder)
    assert [r["step"] for r in resumed] == list(range(end + 1))
    # the last row of the shorter run carries its closing evaluation
    assert resumed[:-1] == rows(tmp_path / "whole")[:-1]


def signal_after(step: int) -> Any:
    def watch(run: Run, row: Mapping[str, float], held_out: HeldOut | None) -> None:
        if run.step == step:
            os.kill(os.getpid(), signal.SIGTERM)

    return watch


def test_sigterm_finishes_the_step_and_saves(tmp_path: Path) -> None:
    outcome = train(config(), PARTS, folder=tmp_path / "run", watch=[signal_after(3)])
    assert (outcome.steps, outcome.complete, outcome.reason) == (3, False, "asked to stop (SIGTERM)")
    found = checkpoint.newest(tmp_path / "run")
    assert found is not None
    assert found.step == 3
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_half_written_checkpoint_is_passed_over(tmp_path: Path) -> None:
    train(config(), PARTS, folder=tmp_path / "run")
    newest = tmp_path / "run/checkpoints/checkpoint-6/model.safetensors"
    newest.write_bytes(newest.read_bytes()[:-100])
    found = checkpoint.newest(tmp_path / "run")
    assert found is not None
    assert found.step == 4


def test_a_full_disk_stops_the_run_and_the_run_goes_on_afterwards(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    real = checkpoint.torch.save

    def full(value: object, path: Path) -> None:
        if "checkpoint-4" in str(path):
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")
        real(value, path)

    monkeypatch.setattr(checkpoint.torch, "save", full)
    with pytest.raises(InputError, match="No space left on device"):
        train(config(), PARTS, folder=folder)
    assert sorted(p.name for p in (folder / "checkpoints").iterdir()) == ["checkpoint-2"]
    monkeypatch.undo()
    train(config(), PARTS, folder=folder, resume=True)
    assert rows(folder) == rows(whole)


def test_a_checkpoint_of_another_config_is_refused(whole: Path) -> None:
    with pytest.raises(InputError) as caught:
        train(config(lr=1e-3, group_size=2), PARTS, folder=whole, resume=True)
    assert caught.value.problems[0].found == "group_size, lr"


def test_settings_that_may_change_are_not_blamed(whole: Path) -> None:
    with pytest.raises(InputError) as caught:
        train(config(lr=1e-3, steps=99, eval_items=2, patience=3), PARTS, folder=whole, resume=True)
    assert caught.value.problems[0].found == "lr"


def test_a_stretched_cadence_is_remembered_and_an_old_checkpoint_opens(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def stretch(run: Run, row: Mapping[str, float], held_out: HeldOut | None) -> None:
        run.cadence.every = 7

    train(config(steps=2), PARTS, folder=folder, watch=[stretch])
    again = open_run(config(), PARTS, folder, resume=True)
    assert (again.cadence.every, again.step) == (7, 2)
    go_on(again)
    state = folder / "checkpoints/checkpoint-6/state.json"
    kept = json.loads(state.read_text())
    assert kept.pop("eval_every") == 7
    state.write_text(json.dumps(kept))
    assert open_run(config(), PARTS, folder, resume=True).cadence.every == 3


def test_a_folder_in_use_is_refused(whole: Path) -> None:
    with pytest.raises(InputError, match="already holds a run"):
        train(config(), PARTS, folder=whole)


def test_more_steps_than_planned_may_follow(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(config(steps=4, eval_every=0), PARTS, folder=folder)
    train(config(steps=6, eval_every=0), PARTS, folder=folder, resume=True)
    kept = [{k: v for k, v in r.items() if not k.startswith("eval/")} for r in rows(whole)[1:]]
    assert rows(folder) == kept
