"""SwanLab's local files: exact values, endings, other format versions, and SwanLab's own writer as oracle."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.tensorboard import bytes_field, varint_bytes

from rlvitals.errors import InputError
from rlvitals.ingest import load
from rlvitals.schema import EventKind, Segment
from tests.ingest.test_wandb import record_log

HEAD = b":SWL" + struct.pack("<HB", 0xE1D6, 2)


def scalar(key: str, step: int, value: float) -> bytes:
    number = bytes_field(5, b"\x09" + struct.pack("<d", value))
    return b"\x08\x01" + bytes_field(13, bytes_field(1, key.encode()) + b"\x10" + varint_bytes(step) + number)


def rows(first: int, last: int, reward: float = 0.0) -> list[bytes]:
    return [
        record
        for s in range(first, last + 1)
        for record in (
            scalar("train/reward", s, reward + s / 64),
            scalar("train/completions/mean_length", s, 9.0),
            scalar("__swanlab__.cpu.pct", s, 50.0),
        )
    ]


def test_scalars_config_and_ending(tmp_path: Path) -> None:
    folder = tmp_path / "swanlog" / "run-20261129_100000-abc"
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "config.yaml").write_text("num_generations:\n  desc: ''\n  sort: 0\n  value: 8\n")
    (folder / "run-abc.swanlab").write_bytes(record_log([*rows(1, 4), bytes_field(11, b"\x08\x02")], HEAD))
    run = load(tmp_path)
    assert run.trainer.name == "TRL"
    assert run.columns["reward_mean"].tolist() == [s / 64 for s in range(1, 5)]
    assert run.config.group_size == 8
    assert [e.kind for e in run.events] == [EventKind.CRASH]
    assert run.unrecognised == ()


def test_a_resumed_run_is_a_rewind(tmp_path: Path) -> None:
    path = tmp_path / "run-abc.swanlab"
    path.write_bytes(record_log([*rows(1, 5), *rows(4, 6, 0.5)], HEAD))
    run = load(path)
    assert run.columns["reward_mean"].tolist() == [s / 64 + (0.5 if s >= 4 else 0.0) for s in range(1, 7)]
    assert run.segments == (Segment(4, 5, 2, 4, "rewind"),)


def test_another_format_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run-abc.swanlab"
    path.write_bytes(record_log(rows(1, 4), HEAD[:-1] + b"\x01"))
    with pytest.raises(InputError, match=r"another format version.*found 1; expected 2"):
        load(path)


@pytest.mark.slow
def test_a_file_of_the_swanlab_package(tmp_path: Path) -> None:
    pytest.importorskip("swanlab")
    script = f"""
import swanlab
swanlab.init(project="p", mode="offline", logdir={str(tmp_path)!r}, config={{"num_generations": 8}})
for i in range(1, 31):
    swanlab.log({{"train/reward": i / 64, "train/completions/mean_length": 9.0}}, step=i)
swanlab.finish()
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path, timeout=200, capture_output=True)
    run = load(tmp_path)
    assert run.step.tolist() == list(range(1, 31))
    assert run.columns["reward_mean"].tolist() == [i / 64 for i in range(1, 31)]
    assert run.config.group_size == 8
    assert [e.kind for e in run.events] == [EventKind.FINISHED]
