"""W&B: offline record logs, CSV and JSON exports, the API's errors. Exact values, and W&B's own writer as oracle."""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.tensorboard import bytes_field, varint_bytes

from rlvitals.errors import InputError
from rlvitals.ingest import load
from rlvitals.ingest.readers.protobuf import Field
from rlvitals.ingest.readers.recordlog import BLOCK
from rlvitals.ingest.readers.wandb_offline import _any_row, _plain_row, read
from rlvitals.ingest.sources import Source
from rlvitals.ingest.table import RawTable
from rlvitals.schema import NONFINITE_PREFIX, EventKind, Segment

HEAD = b":W&B" + struct.pack("<HB", 0xBEE1, 0)


def chunk(kind: int, data: bytes) -> bytes:
    return struct.pack("<IHB", zlib.crc32(bytes([kind]) + data), len(data), kind) + data


def record_log(records: list[bytes], head: bytes = HEAD) -> bytes:
    """Return a .wandb file: records cut at the ends of 32 KiB blocks, as LevelDB's log format says."""
    out = bytearray(head)
    for record in records:
        first = True
        while True:
            room = BLOCK - len(out) % BLOCK
            if room < 7:
                out += bytes(room)
                continue
            part, record = record[: room - 7], record[room - 7 :]
            kind = (1 if first else 4) if not record else (2 if first else 3)
            out += chunk(kind, part)
            first = False
            if not record:
                break
    return bytes(out)


def item(key: str, value: object, *, nested: bool = False) -> bytes:
    name = (
        b"".join(bytes_field(2, part.encode()) for part in key.split("/")) if nested else bytes_field(1, key.encode())
    )
    return bytes_field(1, name + bytes_field(16, json.dumps(value).encode()) + b"")


def history(step: int, **values: object) -> bytes:
    items = b"".join(item(key.replace("__", "/"), value) for key, value in values.items())
    return b"\x08\x01" + bytes_field(2, items + bytes_field(2, b"\x08" + varint_bytes(step)))


def config(**values: object) -> bytes:
    return bytes_field(5, b"".join(item(key, value) for key, value in values.items()))


def rows(first: int, last: int, reward: float = 0.0) -> list[bytes]:
    return [
        history(s - 1, train__global_step=s, train__reward=reward + s / 64, train__reward_std=0.25,
                train__completions__mean_length=100.0 + s, _timestamp=1.7e9 + s, _runtime=s)
        for s in range(first, last + 1)
    ]  # fmt: skip


def write(path: Path, records: list[bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(record_log(records))
    return path


def table(path: Path) -> RawTable:
    (only,) = read(Source(str(path), path))
    return only


def test_rows_config_and_exit_code(tmp_path: Path) -> None:
    records = [config(num_generations=8, beta=0.04), *rows(1, 3), config(beta=0.1), bytes_field(18, b"\x08\x00")]
    run = load(write(tmp_path / "run-abc.wandb", records))
    assert run.trainer.name == "TRL"
    assert run.step.tolist() == [1, 2, 3]
    assert run.columns["reward_mean"].tolist() == [1 / 64, 2 / 64, 3 / 64]
    assert (run.config.group_size, run.config.kl_coef) == (8, 0.1)
    assert run.config.sources["kl_coef"] == "W&B config: beta"
    assert [(e.kind, e.step) for e in run.events] == [(EventKind.FINISHED, 3)]
    assert run.unrecognised == ()


def test_a_failed_process_is_a_crash(tmp_path: Path) -> None:
    run = load(write(tmp_path / "run-abc.wandb", [*rows(1, 3), bytes_field(18, b"\x08\x01")]))
    assert [e.kind for e in run.events] == [EventKind.CRASH]


def test_records_that_cross_blocks(tmp_path: Path) -> None:
    records = [history(s, train__global_step=s, train__reward=s / 64, note="x" * 5000) for s in range(1, 60)]
    records.insert(20, bytes_field(4, b"y" * 100_000))  # a record over several blocks
    got = table(write(tmp_path / "run-abc.wandb", records))
    assert (tmp_path / "run-abc.wandb").stat().st_size > 12 * BLOCK
    assert got.columns["train/reward"].tolist() == [s / 64 for s in range(1, 60)]
    assert got.notes == ()


def test_nested_keys_media_and_nan(tmp_path: Path) -> None:
    media = {"_type": "table-file", "ncols": 3, "nrows": 8}
    one = (
        item("loss/policy", 0.5, nested=True) + item("samples", media) + item("reward", math.nan) + item("x", {"y": 2})
    )
    got = table(write(tmp_path / "run-abc.wandb", [b"\x08\x01" + bytes_field(2, one)]))
    assert {key: column.tolist() for key, column in got.columns.items() if key != "reward"} == {
        "loss/policy": [0.5], "x/y": [2.0]
    }  # fmt: skip
    assert got.nonfinite["reward"].tolist() == [True]


def test_the_shape_of_current_releases_gives_the_same_rows(tmp_path: Path) -> None:
    flat = {"_step": 0, "train/reward": 0.5, "train/kl": 1e-3, "text": "a,b", "none": None, "_runtime": 1.5}
    encoded = [bytes_field(2, k.encode()) + bytes_field(16, json.dumps(v).encode()) for k, v in flat.items()]
    items = b"".join(bytes_field(1, one) for one in encoded)
    inner = bytes_field(2, b"loss") + bytes_field(2, b"policy") + bytes_field(16, b"0.25")
    message = items + bytes_field(1, inner) + bytes_field(2, b"")
    want = {"_step": 0, "train/reward": 0.5, "train/kl": 1e-3, "text": "a,b", "none": None, "loss/policy": 0.25}
    plain = _plain_row(message, 0, len(message))
    assert plain == ({**want, "_runtime": 1.5}, 0)
    assert plain == _any_row(message, Field(2, 2, 0, len(message)))
    assert _plain_row(message.replace(b"0.25", b" NaN"), 0, len(message)) is None
    got = table(write(tmp_path / "run-abc.wandb", [bytes_field(2, message)]))
    assert {k: c.tolist() for k, c in got.columns.items()} == {
        "_step": [0], "train/reward": [0.5], "train/kl": [1e-3], "loss/policy": [0.25]
    }  # fmt: skip


def test_damage_costs_its_block_and_a_torn_end_its_record(tmp_path: Path) -> None:
    records = [history(s, train__global_step=s, train__reward=s / 64, note="x" * 900) for s in range(1, 101)]
    data = bytearray(record_log(records))
    data[BLOCK + 1000] ^= 1
    path = tmp_path / "run-abc.wandb"
    path.write_bytes(data[:-10])
    got = table(path)
    steps = got.columns["train/global_step"].astype(int)
    assert steps[0] == 1
    assert steps[-1] == 99
    assert np.diff(steps).max() > 10  # the rest of the second block
    assert np.count_nonzero(np.diff(steps) > 1) == 1
    assert sorted(n.text.split(":")[0] for n in got.notes) == [
        "skipped damaged records",
        "the file ends inside a record",
    ]


def test_the_starts_of_one_run_are_one_series(tmp_path: Path) -> None:
    write(tmp_path / "wandb" / "offline-run-20261129_100000-abc" / "run-abc.wandb", rows(1, 6))
    write(tmp_path / "wandb" / "offline-run-20261129_110000-abc" / "run-abc.wandb", rows(5, 8, 0.5))
    write(tmp_path / "wandb" / "offline-run-20261129_120000-def" / "run-def.wandb", rows(1, 3, 0.75))
    run = load(tmp_path)
    assert run.columns["reward_mean"].tolist() == [s / 64 + (0.5 if s >= 5 else 0.0) for s in range(1, 9)]
    assert run.segments == (Segment(5, 6, 2, 5, "rewind"),)
    assert run.notes[0].text.endswith("left out wandb/offline-run-20261129_120000-def/run-def.wandb")


@pytest.mark.slow
def test_a_file_of_the_wandb_package(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    script = """
import wandb
run = wandb.init(project="p", config={"num_generations": 8, "beta": 0.04, "nested": {"a": 1}})
for i in range(1, 301):
    row = {"train/global_step": i, "train/reward": i / 64, "train/reward_std": 0.25, "train/completion_length": 100.0}
    if i == 7:
        row["train/reward"] = float("nan")
    run.log({**row, "nest": {"x": i}})
run.config.update({"epsilon": 0.3})
run.finish()
"""
    env = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], check=True, env=env, cwd=tmp_path, timeout=200, capture_output=True)
    run = load(tmp_path)
    assert run.step.tolist() == list(range(1, 301))
    want = np.arange(1, 301) / 64
    want[6] = np.nan
    np.testing.assert_array_equal(run.columns["reward_mean"], want)
    assert np.flatnonzero(run.columns[NONFINITE_PREFIX + "reward_mean"] == 1).tolist() == [6]
    assert (run.config.group_size, run.config.kl_coef, run.config.clip_low) == (8, 0.04, 0.3)
    assert [e.kind for e in run.events] == [EventKind.FINISHED]


EXPORT = """"Step","a - b - train/reward","a - b - train/reward__MIN","a - b - train/reward__MAX"
"1","0.25","0.25","0.25"
"2","0.5","0.5","0.5"
"""


def test_csv_export_of_one_run(tmp_path: Path) -> None:
    path = tmp_path / "wandb_export.csv"
    path.write_text(EXPORT)
    run = load(path)
    assert run.step.tolist() == [1, 2]
    assert run.columns["reward_mean"].tolist() == [0.25, 0.5]
    assert set(run.columns) == {"reward_mean"}
    assert run.provenance["reward_mean"].key == "train/reward"


def test_csv_export_of_several_runs_reads_the_fullest_and_names_the_others(tmp_path: Path) -> None:
    path = tmp_path / "wandb_export.csv"
    path.write_text(
        '"train/global_step","one - reward","one - reward__MIN","one - reward__MAX",'
        '"two - reward","two - reward__MIN","two - reward__MAX"\n'
        '"1","0.1","0.1","0.1","0.25","0.25","0.25"\n"2","","","","0.5","0.5","0.5"\n'
    )
    run = load(path)
    assert run.columns["reward_mean"].tolist() == [0.25, 0.5]
    assert [n.text for n in run.notes] == ["the export holds 2 runs; read two, left out one"]


@pytest.mark.parametrize("suffix", ["jsonl", "json"])
def test_history_export(tmp_path: Path, suffix: str) -> None:
    lines = [
        {"_step": s - 1, "_runtime": 3.5 * s, "_timestamp": 1.7e9 + s, "train/global_step": s, "train/reward": s / 64,
         "train/frac_reward_zero_std": 0.5, "generations": {"_type": "table-file", "nrows": 4}}
        for s in range(1, 5)
    ]  # fmt: skip
    path = tmp_path / f"history.{suffix}"
    path.write_text("\n".join(map(json.dumps, lines)) if suffix == "jsonl" else json.dumps(lines))
    run = load(path)
    assert run.step.tolist() == [1, 2, 3, 4]
    assert run.columns["reward_mean"].tolist() == [s / 64 for s in range(1, 5)]
    assert run.unrecognised == ()


def test_api_runs_say_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="wandb://entity/project/run_id"):
        load("wandb://entity/run")
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(InputError, match=r"need the wandb package.*rlvitals\[wandb\]"):
        load("wandb://entity/project/run")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(Api=lambda **_: SimpleNamespace(api_key=None)))
    with pytest.raises(InputError, match="no W&B key found"):
        load("wandb://entity/project/run")


def test_api_runs_are_read_unsampled(monkeypatch: pytest.MonkeyPatch) -> None:
    history_rows = [{"_step": s, "train/global_step": s, "train/reward": s / 64, "train/kl": None} for s in range(1, 4)]
    run = SimpleNamespace(scan_history=lambda **_: history_rows, config={"beta": 0.04, "_wandb": {}}, state="crashed")
    client = SimpleNamespace(run=lambda path: {"e/p/r": run}[path], api_key="k")
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(Api=lambda **_: client))
    got = load("wandb://e/p/r", map={"reward_mean": "train/reward"})
    assert got.columns["reward_mean"].tolist() == [1 / 64, 2 / 64, 3 / 64]
    assert [e.kind for e in got.events] == [EventKind.CRASH]
    with pytest.raises(InputError, match="W&B did not return the run"):
        load("wandb://e/p/other")
