"""Experiment trackers, each with its real library, local or offline: what arrives is what metrics.jsonl holds.

Each run is a process of its own, as the command's: the libraries keep settings, services and hooks for its whole life.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing as shut
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rlvitals
from rlvitals.errors import InputError
from rlvitals.grpo.loop import go_on
from rlvitals.grpo.run import open_run
from rlvitals.grpo.trackers import PROJECT, Tracker, _free, _mlflow_name, closing
from rlvitals.schema import NONFINITE_PREFIX, EventKind
from tests.grpo.loops import PARTS, config, one_thread

ROOT = Path(__file__).parents[2]
ODD = "reward_family/Counting & Probability"  # a category of MATH; MLflow takes no `&`
PLACES: Mapping[str, Callable[[Path], Path]] = {
    "tensorboard": lambda at: next((at / "run" / PROJECT).glob("events*")),
    "wandb": lambda at: next(at.rglob("run-*.wandb")),
    "mlflow": lambda at: at / "mlflow.db",
    "trackio": lambda at: at / "trackio" / f"{PROJECT}.db",
}


def play(name: str, at: str, steps: int = 3, resume: bool = False, breaks: bool = False) -> None:
    """Train a tiny run with a tracker; its second row has values that are no numbers."""
    one_thread()

    def record(step: int, row: Mapping[str, float]) -> Mapping[str, float]:
        return {**row, ODD: step / 4, **({"grad_norm": math.nan, "loss": math.inf} if step == 2 else {})}

    def look(run: Any, row: Any, held_out: Any) -> None:
        if breaks and run.step == 2:
            raise RuntimeError("out of memory")

    folder = Path(at) / "run"
    tracker = Tracker(name, str(folder))
    run = open_run(
        config(steps=steps, eval_every=2, save_every=2), replace(PARTS, record=record), folder, resume=resume
    )
    tracker.start(run)
    with closing([tracker]):
        go_on(run, [tracker, look])


def played(name: str, at: Path, **more: object) -> subprocess.CompletedProcess[str]:
    own = {"WANDB_MODE": "offline", "WANDB_DIR": str(at), "TRACKIO_DIR": str(at / "trackio"),
           "MLFLOW_TRACKING_URI": f"sqlite:///{at / 'mlflow.db'}"}  # fmt: skip
    code = f"from tests.grpo.test_trackers import play; play({name!r}, {str(at)!r}, **{more!r})"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **own}, capture_output=True, text=True, timeout=280,
        check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACES)
def test_what_arrives_is_what_was_logged(name: str, tmp_path: Path) -> None:
    pytest.importorskip(name)
    done = played(name, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "failed and gets nothing more" not in done.stderr
    want = rlvitals.load(tmp_path / "run" / "metrics.jsonl")
    got = rlvitals.load(PLACES[name](tmp_path))
    assert got.trainer.name == want.trainer.name == "rlvitals train"
    assert got.step.tolist() == want.step.tolist() == [1, 2, 3]
    assert got.evals["heldout"].step.tolist() == want.evals["heldout"].step.tolist() == [0, 2, 3]
    np.testing.assert_allclose(got.evals["heldout"].score, want.evals["heldout"].score, rtol=1e-6)
    renamed = {ODD: ODD.replace("&", "_")} if name in ("mlflow", "tensorboard") else {}
    if name == "tensorboard":
        renamed = {ODD: next(c for c in got.columns if c.startswith("reward_family/Counting"))}
    assert {renamed.get(c, c) for c in want.columns} == set(got.columns)
    for column, values in want.columns.items():  # TensorBoard holds float32
        np.testing.assert_allclose(got.columns[renamed.get(column, column)], values, rtol=2e-7, atol=1e-12)
    assert got.columns[NONFINITE_PREFIX + "grad_norm"].tolist()[1] == 1.0


@pytest.mark.slow
def test_a_resumed_run_is_whole_in_the_tracker(tmp_path: Path) -> None:
    name = "trackio"
    pytest.importorskip(name)
    for steps, resume in ((2, False), (4, True)):
        done = played(name, tmp_path, steps=steps, resume=resume)
        assert done.returncode == 0, done.stderr
    got = rlvitals.load(PLACES[name](tmp_path))
    assert (got.step.tolist(), got.evals["heldout"].step.tolist()) == ([1, 2, 3, 4], [0, 2, 4])


@pytest.mark.slow
def test_a_run_that_broke_off_is_told_as_failed(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    done = played("mlflow", tmp_path, breaks=True)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("RuntimeError: out of memory")
    with shut(sqlite3.connect(tmp_path / "mlflow.db")) as store:
        assert store.execute("SELECT name, status FROM runs").fetchall() == [("run", "FAILED")]
        assert store.execute("SELECT max(step) FROM metrics").fetchone() == (2,)


@pytest.mark.slow
def test_a_broken_run_of_wandb_has_an_exit_code(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    done = played("wandb", tmp_path, breaks=True)
    assert done.stderr.rstrip().endswith("RuntimeError: out of memory")
    run = rlvitals.load(PLACES["wandb"](tmp_path))
    assert [(e.kind, e.detail) for e in run.events] == [
        (EventKind.CRASH, "W&B recorded that the process ended with exit code 1")
    ]


class Broken:
    """Stands in for accelerate: takes one row, then its server is gone."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.closed: list[str] = []
        self.trackers = [SimpleNamespace(finish=lambda: self.closed.append("finished"))]

    def log(self, row: Mapping[str, float], step: int) -> None:
        if step >= 2:
            raise ConnectionError("no route to host")
        self.rows.append(step)


def test_a_tracker_that_fails_ends_the_tracking_and_not_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = open_run(config(steps=4), PARTS, tmp_path / "run")
    tracker, broken = Tracker("tensorboard", str(tmp_path / "run")), Broken()
    tracker._accelerator = broken
    with closing([tracker]):
        outcome = go_on(run, [tracker])
    assert (outcome.steps, outcome.complete) == (4, True)
    assert (broken.rows, broken.closed) == ([0, 1], ["finished"])
    said = capsys.readouterr().err
    assert said.count("tensorboard failed and gets nothing more: ConnectionError: no route to host") == 1
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    assert [e["step"] for e in events if e["kind"] == "tracker"] == [2]


def test_names_that_mlflow_takes() -> None:
    assert _mlflow_name("reward_part/correct") == "reward_part/correct"
    assert _mlflow_name(ODD) == "reward_family/Counting _ Probability"
    assert _mlflow_name("success_tier/../x//y:z") == "success_tier/_../x/_/y_z"
    assert len(_mlflow_name("reward_family/" + "x" * 400)) == 250
    assert _free("a", {"a", "a-2"}) == "a-3"


def test_a_tracker_that_is_none_or_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import accelerate.tracking

    with pytest.raises(InputError, match="unknown tracker; found 'abacus'"):
        Tracker("abacus", "run")
    monkeypatch.setattr(accelerate.tracking, "_available_trackers", [])
    with pytest.raises(InputError, match=r"its package is not there.*pip install mlflow-skinny sqlalchemy alembic"):
        Tracker("mlflow", "run")
