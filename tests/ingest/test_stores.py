"""MLflow and trackio stores, and remote paths: exact values, several runs in one store, hostile and damaged files."""

from __future__ import annotations

import gzip
import io
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rlvitals.errors import InputError
from rlvitals.ingest import load
from rlvitals.schema import NONFINITE_PREFIX, EventKind, Segment
from tests.ingest import test_tensorboard

MLFLOW_SCHEMA = """
CREATE TABLE runs (run_uuid TEXT PRIMARY KEY, name TEXT, status TEXT, start_time BIGINT, lifecycle_stage TEXT);
CREATE TABLE metrics (key TEXT, value FLOAT, timestamp BIGINT, run_uuid TEXT, step BIGINT, is_nan BOOLEAN);
CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);
"""


def mlflow_store(path: Path, runs: dict[str, list[tuple[str, float, int, int]]], **params: str) -> Path:
    """Write a store; `runs` is run id -> (key, value, step, is_nan), each value logged one millisecond later."""
    with closing(sqlite3.connect(path)) as store:
        store.executescript(MLFLOW_SCHEMA)
        for n, (run, values) in enumerate(runs.items()):
            store.execute("INSERT INTO runs VALUES (?, ?, 'FINISHED', ?, 'active')", (run, f"name-{run}", 1000 + n))
            rows = [(key, value, i, run, step, is_nan) for i, (key, value, step, is_nan) in enumerate(values)]
            store.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", rows)
            store.executemany("INSERT INTO params VALUES (?, ?, ?)", [(k, v, run) for k, v in params.items()])
        store.commit()
    return path


def values(first: int, last: int, reward: float = 0.0) -> list[tuple[str, float, int, int]]:
    return [
        row
        for s in range(first, last + 1)
        for row in (("train/reward", reward + s / 64, s, 0), ("train/completions/mean_length", 100.0 + s, s, 0))
    ]


def test_mlflow_database(tmp_path: Path) -> None:
    logged = [*values(1, 5), ("train/kl", 0.0, 3, 1)]
    run = load(mlflow_store(tmp_path / "mlruns.db", {"r1": logged}, num_generations="8", beta="0.04"))
    assert run.trainer.name == "TRL"
    assert run.step.tolist() == [1, 2, 3, 4, 5]
    assert run.columns["reward_mean"].tolist() == [s / 64 for s in range(1, 6)]
    assert np.flatnonzero(run.columns[NONFINITE_PREFIX + "kl_ref"] == 1).tolist() == [2]
    assert (run.config.group_size, run.config.kl_coef) == (8, 0.04)
    assert run.config.sources["group_size"] == "MLflow params: num_generations"
    assert [(e.kind, e.step) for e in run.events] == [(EventKind.FINISHED, 5)]


def test_of_several_runs_the_last_is_read_or_the_one_named(tmp_path: Path) -> None:
    store = mlflow_store(tmp_path / "mlruns.db", {"r1": values(1, 9), "r2": values(1, 3, 0.5)})
    run = load(store)
    assert run.columns["reward_mean"].tolist() == [0.5 + s / 64 for s in range(1, 4)]
    assert "read the last one, name-r2. Others: name-r1" in run.notes[0].text
    assert load(f"{store}#name-r1").rows == load(f"{store}#r1").rows == 9
    with pytest.raises(InputError, match=r"no such run in the store.*found r3; expected name-r2, name-r1"):
        load(f"{store}#r3")


def test_a_resumed_mlflow_run_is_a_rewind(tmp_path: Path) -> None:
    run = load(mlflow_store(tmp_path / "mlruns.db", {"r1": values(1, 6) + values(4, 8, 0.5)}))
    assert run.columns["reward_mean"].tolist() == [s / 64 + (0.5 if s >= 4 else 0.0) for s in range(1, 9)]
    assert run.segments == (Segment(4, 6, 3, 4, "rewind"),)


def test_a_packed_store(tmp_path: Path) -> None:
    store = mlflow_store(tmp_path / "mlruns.db", {"r1": values(1, 4)})
    packed = tmp_path / "packed.db.gz"
    packed.write_bytes(gzip.compress(store.read_bytes()))
    assert load(packed).rows == 4


def test_binary_logs_from_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = mlflow_store(tmp_path / "mlruns.db", {"r1": values(1, 4)})
    events = test_tensorboard.write(tmp_path / "events", test_tensorboard.trl_rows(1, 4))
    for path in (store, events):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(path.read_bytes())))
        run = load("-")
        assert (run.name, run.columns["reward_mean"].tolist()) == ("stdin", [s / 64 for s in range(1, 5)])


def test_a_view_that_never_ends_is_no_store(tmp_path: Path) -> None:
    path = tmp_path / "evil.db"
    with closing(sqlite3.connect(path)) as store:
        store.executescript(
            "CREATE TABLE runs (run_uuid, name, status, start_time, lifecycle_stage);"
            "CREATE VIEW metrics AS WITH RECURSIVE n(key) AS (SELECT 1 UNION ALL SELECT key + 1 FROM n)"
            " SELECT key, 1 AS value, 1 AS step, 1 AS run_uuid, 0 AS is_nan, 0 AS timestamp FROM n;"
        )
    with pytest.raises(InputError, match="no MLflow or trackio store"):
        load(path)


def test_a_damaged_database_is_an_error_with_a_reason(tmp_path: Path) -> None:
    store = mlflow_store(tmp_path / "mlruns.db", {"r1": values(1, 200)})
    data = bytearray(store.read_bytes())
    data[4096 : 3 * 4096] = b"\xff" * (2 * 4096)
    store.write_bytes(data)
    with pytest.raises(InputError, match="cannot read the SQLite store"):
        load(store)


def mlflow_folder(top: Path, metrics: dict[str, list[str]], params: dict[str, str], status: int = 3) -> Path:
    (top / "metrics").mkdir(parents=True)
    (top / "meta.yaml").write_text(f"run_id: r\nstatus: {status}\n")
    for folder, files in (("metrics", {k: "\n".join(v) + "\n" for k, v in metrics.items()}), ("params", params)):
        for key, text in files.items():
            (top / folder / key).parent.mkdir(parents=True, exist_ok=True)
            (top / folder / key).write_text(text)
    return top


def test_mlflow_folder(tmp_path: Path) -> None:
    reward = [f"{s} {s / 64} {s}" for s in range(1, 5)]
    length = [f"{s} 100.5 {s}" for s in range(1, 5)]
    metrics = {"train/reward": [*reward, "half"], "train/completions/mean_length": length, "train/kl": ["3 nan 3"]}
    folder = mlflow_folder(tmp_path / "mlruns/1/abc", metrics, {"num_generations": "8", "a/b": "x"}, status=4)
    for path in (folder, tmp_path):
        run = load(path)
        assert run.columns["reward_mean"].tolist() == [s / 64 for s in range(1, 5)]
        assert run.columns[NONFINITE_PREFIX + "kl_ref"][2] == 1.0
        assert run.config.group_size == 8
        assert [e.kind for e in run.events] == [EventKind.CRASH]
        assert ("skipped lines that are no metric values", 1) in [(n.text, n.count) for n in run.notes]


TRACKIO_SCHEMA = """
CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_id TEXT, timestamp TEXT, run_name TEXT, step INTEGER, metrics TEXT);
CREATE TABLE configs (id INTEGER PRIMARY KEY, run_id TEXT, run_name TEXT, config TEXT, created_at TEXT);
"""


def test_trackio_database(tmp_path: Path) -> None:
    path = tmp_path / "project.db"
    with closing(sqlite3.connect(path)) as store:
        store.executescript(TRACKIO_SCHEMA)
        for run in ("old", "new"):
            store.execute("INSERT INTO configs VALUES (NULL, ?, ?, ?, '')", (run, run, '{"num_generations": 4}'))
            for s in range(1, 4):
                row: dict[str, object] = {
                    "train/global_step": s,
                    "train/reward": s / 64,
                    "train/kl": "NaN" if s == 2 else 0.5,
                }
                row["train/completions/mean_length"] = 10.0
                time = f"2026-{'01' if run == 'old' else '02'}-01T00:00:0{s}"
                blob: object = json.dumps(row) if s == 1 else json.dumps(row).encode()
                store.execute("INSERT INTO metrics VALUES (NULL, ?, ?, ?, ?, ?)", (run, time, run, s - 1, blob))
        store.execute("INSERT INTO metrics VALUES (NULL, 'new', '2026-02-02', 'new', 9, 'no json')")
        store.commit()
    run = load(path)
    assert run.trainer.name == "TRL"
    assert run.columns["reward_mean"].tolist() == [1 / 64, 2 / 64, 3 / 64]
    assert np.flatnonzero(run.columns[NONFINITE_PREFIX + "kl_ref"] == 1).tolist() == [1]
    assert run.config.group_size == 4
    assert [(n.text.split(".")[0], n.count) for n in run.notes] == [
        ("the store holds 2 runs; read the last one, new", 1), ("skipped rows that are no JSON objects", 1)
    ]  # fmt: skip


ORACLE = {
    "trackio": """
import trackio
trackio.init(project="proj", name="r", config={"num_generations": 8})
for i in range(1, 21):
    trackio.log({"train/global_step": i, "train/reward": i / 64, "train/completions/mean_length": 9.0})
trackio.finish()
""",
    "mlflow": """
import mlflow
mlflow.set_tracking_uri(STORE)
mlflow.set_experiment("e")
with mlflow.start_run(run_name="r"):
    mlflow.log_params({"num_generations": 8})
    for i in range(1, 21):
        mlflow.log_metrics({"train/reward": i / 64, "train/completions/mean_length": 9.0}, step=i)
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("package", ["trackio", "mlflow", "mlflow-file"])
def test_stores_that_the_packages_write(tmp_path: Path, package: str) -> None:
    name = package.removesuffix("-file")
    pytest.importorskip(name)
    if package == "mlflow":
        pytest.importorskip("alembic")
    store = tmp_path.as_uri() + "/mlruns" if package == "mlflow-file" else f"sqlite:///{tmp_path}/mlflow.db"
    env = {**os.environ, "TRACKIO_DIR": str(tmp_path), "HF_HUB_OFFLINE": "1", "MLFLOW_ALLOW_FILE_STORE": "1"}
    script = f"STORE = {store!r}\n" + ORACLE[name]
    subprocess.run([sys.executable, "-c", script], check=True, env=env, cwd=tmp_path, timeout=200, capture_output=True)
    run = load(tmp_path)
    assert run.step.tolist() == list(range(1, 21))
    assert run.columns["reward_mean"].tolist() == [i / 64 for i in range(1, 21)]
    assert run.config.group_size == 8


def test_remote_folder_and_store(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    rows = [{"step": s, "reward": s / 64, "reward_std": 0.25, "completions/mean_length": 9.0} for s in range(1, 5)]
    files = {
        "out/checkpoint-4/trainer_state.json": json.dumps({"log_history": rows}).encode(),
        "out/args.json": b'{"num_generations": 8}',
        "out/checkpoint-4/model.safetensors": b"weights",
    }
    for name, data in files.items():
        with fsspec.open(f"memory://bucket/{name}", "wb") as stream:
            stream.write(data)
    run = load("memory://bucket/out")
    assert (run.name, run.step.tolist(), run.config.group_size) == ("out", [1, 2, 3, 4], 8)
    store = mlflow_store(tmp_path / "mlruns.db", {"r1": values(1, 9), "r2": values(1, 3)})
    assert load(f"file://{store}#r1").rows == 9
    assert load(f"file://{store}").sources == (f"file://{store}",)


def test_credentials_in_a_remote_path_are_not_shown() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(InputError) as error:
        load("nosuch://user:secret@host/run.jsonl")
    assert "secret" not in str(error.value)
    assert "nosuch://...@host/run.jsonl" in str(error.value)
