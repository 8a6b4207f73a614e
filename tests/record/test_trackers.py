"""The record in the run's own tracker, written with the real library in its local or offline mode and read back."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from rlvitals.errors import InputError
from rlvitals.record.entry import Entry, Fix
from rlvitals.record.trackers import write
from rlvitals.record.trackers.fields import flat

ROOT = Path(__file__).parents[2]
ENTRY = Entry(
    when="2026-11-29T10:00:00+00:00",
    run="run-7",
    task="math",
    model="tiny",
    trainer="TRL",
    verdict="act",
    check="S001",
    finding="zero-variance-groups",
    headline="groups are tied",
    onset="step 12",
    steps=80,
    evidence=("0.9 of the groups are tied; limit 0.5",),
    fix=Fix("difficulty", "4", "2"),
    versions={"reward": "v3"},
)


def test_fields_are_flat_and_never_empty() -> None:
    found = flat(ENTRY)
    assert found["fix"] == "difficulty: 4 -> 2"
    assert found["version.reward"] == "v3"
    assert "checkpoint" not in found


@pytest.mark.parametrize("place", ["mlflow", "neptune:run", "wandb:", "wandb:run", "trackio:run"])
def test_a_place_that_is_none_is_said(place: str) -> None:
    with pytest.raises(InputError, match="not a"):
        write(place, ENTRY)


@pytest.mark.slow
def test_mlflow_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    mlflow.set_tracking_uri(uri)
    client = mlflow.MlflowClient()
    run = client.create_run(client.create_experiment("e")).info.run_id
    write(f"mlflow:{run}", ENTRY)
    tags = client.get_run(run).data.tags
    assert tags["rlvitals.finding"] == "S001 zero-variance-groups"
    assert tags["rlvitals.fix"] == "difficulty: 4 -> 2"
    with pytest.raises(InputError, match="did not take"):
        write("mlflow:" + "0" * 32, ENTRY)


@pytest.mark.slow
def test_wandb_summary_offline(tmp_path: Path) -> None:
    """In a process of its own, as the command runs: wandb keeps settings and a service for the life of a process."""
    pytest.importorskip("wandb")
    code = "from tests.record.test_trackers import ENTRY; from rlvitals.record.trackers import write; "
    env = {**os.environ, "WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}
    command = [sys.executable, "-c", code + "write('wandb:project/abc123', ENTRY)"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (stored,) = tmp_path.rglob("run-abc123.wandb")
    content = stored.read_bytes()
    assert b"rlvitals/finding" in content
    assert b"S001 zero-variance-groups" in content


@pytest.mark.slow
def test_trackio_row_and_alert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("trackio")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    import trackio.sqlite_storage as storage
    import trackio.utils as utils

    for module in (storage, utils):
        if hasattr(module, "TRACKIO_DIR"):
            monkeypatch.setattr(module, "TRACKIO_DIR", tmp_path)
    write("trackio:project/run-7", ENTRY)
    (database,) = tmp_path.glob("project*.db")
    with sqlite3.connect(database) as db:
        text = "\n".join(str(row) for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")
                         for row in db.execute(f'SELECT * FROM "{table}"'))  # fmt: skip
    assert "S001 zero-variance-groups" in text
    assert "groups are tied" in text
