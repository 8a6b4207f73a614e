"""Small valid files of every format that is read, and the mutations that the fuzzers apply to them."""

from __future__ import annotations

import gzip
import json
import random
import sqlite3
import struct
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import zstandard
from benchmarks.tensorboard import bytes_field, framed, scalar_event, varint_bytes

from tests.fuzz import records
from tests.ingest.test_stores import TRACKIO_SCHEMA, mlflow_store, values
from tests.ingest.test_swanlab import HEAD as SWANLAB_HEAD
from tests.ingest.test_swanlab import scalar as swanlab_scalar
from tests.ingest.test_wandb import config, record_log, rows

Wrap = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Seed:
    """A valid file; `wrap` turns mutated content into the file, so that mutations get past packing and checksums."""

    name: str
    file: str
    content: bytes
    wrap: Wrap


ROWS = [
    {"step": s, "reward": 0.1 * s, "reward_std": 0.25, "completions/mean_length": 100.0 + s, "kl": 0.01, "loss": -0.1,
     "rewards/format/mean": 0.5, "eval_reward": 0.3, "nested": {"a": {"b": 1.0}}}
    for s in range(1, 9)
]  # fmt: skip
DIVIDER = b"\xff\xfe\xfd\xfc"  # between the records of the formats with framing


def plain(data: bytes) -> bytes:
    return data


def event_file(data: bytes) -> bytes:
    return b"".join(framed(record) for record in data.split(DIVIDER))


def wandb_file(data: bytes) -> bytes:
    return record_log([record for record in data.split(DIVIDER) if len(record) < 2**20])


def swanlab_file(data: bytes) -> bytes:
    return record_log([record for record in data.split(DIVIDER) if len(record) < 2**20], SWANLAB_HEAD)


def _jsonl() -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)


def _csv() -> bytes:
    flat = [{k: v for k, v in row.items() if k != "nested"} for row in ROWS]
    lines = [",".join(flat[0])] + [",".join(str(v) for v in row.values()) for row in flat]
    return "\n".join(lines).encode() + b"\n"


def _wandb_csv() -> bytes:
    head = '"Step","a - reward","a - reward__MIN","a - reward__MAX","b - reward","b - reward__MIN","b - reward__MAX"\n'
    return (head + "".join(f'"{s}","0.{s}","0.1","0.9","0.{s}","0.1","0.9"\n' for s in range(1, 9))).encode()


def _notebook() -> bytes:
    table = "<table><tr><th>Step</th><th>Training Loss</th><th>reward</th></tr>"
    table += "".join(f"<tr><td>{s}</td><td>0.1</td><td>0.{s}</td></tr>" for s in range(1, 9)) + "</table>"
    output = {"output_type": "display_data", "data": {"text/html": [table]}}
    cell = {"cell_type": "code", "source": ["GRPOConfig(beta=0.04)"], "outputs": [output]}
    return json.dumps({"cells": [cell], "nbformat": 4}).encode()


def _console() -> bytes:
    trl = "\n".join(str({k: v for k, v in row.items() if k != "nested"}) for row in ROWS)
    verl = "\n".join(
        f"(TaskRunner pid=1) step:{s} - critic/score/mean:np.float64(0.{s}) - actor/kl_loss:0.1" for s in range(9)
    )
    return (trl + "\n" + verl + "\nTraceback (most recent call last):\nRuntimeError: boom\n").encode()


def tensorboard_records() -> bytes:
    text = bytes_field(1, b"args/text_summary") + bytes_field(8, b"\x08\x07" + bytes_field(8, b'{"beta": 0.04}'))
    hparam = bytes_field(1, bytes_field(1, b"beta") + bytes_field(2, b"\x11" + struct.pack("<d", 0.1)))
    plugin = bytes_field(1, b"hparams") + bytes_field(2, bytes_field(3, hparam))
    double = bytes_field(1, b"train/kl") + bytes_field(8, b"\x08\x02\x12\x00" + bytes_field(6, struct.pack("<d", 0.5)))
    half = bytes_field(1, b"train/loss") + bytes_field(8, b"\x08\x13" + bytes_field(13, varint_bytes(14336)))
    records = [b"\x09" + struct.pack("<d", 1.7e9) + bytes_field(3, b"brain.Event:2")]
    records += [
        bytes_field(5, bytes_field(1, part))
        for part in (text, bytes_field(1, b"h") + bytes_field(9, bytes_field(1, plugin)))
    ]
    for step in range(1, 12):
        records += [
            scalar_event(1.7e9, step, tag, step / 8) for tag in ("train/reward", "train/reward_std", "eval/reward")
        ]
        records += [b"\x10" + varint_bytes(step) + bytes_field(5, bytes_field(1, part)) for part in (double, half)]
    return DIVIDER.join(records)


def _rewinds() -> bytes:
    """Return scalars whose steps go back twice, key by key: what ingest/longform.py puts on one axis."""
    steps = (*range(1, 7), *range(4, 9), *range(2, 5))
    tags = ("train/reward", "train/reward_std", "train/kl")
    return DIVIDER.join(scalar_event(1.7e9 + i, s, tag, s / 8) for i, s in enumerate(steps) for tag in tags)


def _wandb() -> bytes:
    return DIVIDER.join([config(num_generations=8, beta=0.04), *rows(1, 9), bytes_field(18, b"\x08\x00")])


def _swanlab() -> bytes:
    scalars = [swanlab_scalar(key, s, s / 8) for s in range(1, 9) for key in ("train/reward", "train/kl")]
    return DIVIDER.join([*scalars, bytes_field(11, b"\x08\x01")])


def _sqlite(kind: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        if kind == "mlflow":
            mlflow_store(path, {"r1": values(1, 9)}, beta="0.04")
        else:
            with closing(sqlite3.connect(path)) as store:
                store.executescript(TRACKIO_SCHEMA)
                for s in range(1, 9):
                    cells = ("r", f"2026-01-0{s}", "r", s, json.dumps({"reward": s / 8, "kl": 0.1}))
                    store.execute("INSERT INTO metrics VALUES (NULL, ?, ?, ?, ?, ?)", cells)
                store.commit()
        return path.read_bytes()


def _parquet() -> bytes:
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        query = "SELECT range AS step, range / 10 AS reward, 0.1 AS kl FROM range(9)"
        duckdb.sql(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
        return path.read_bytes()


def seeds() -> tuple[Seed, ...]:
    """Return a valid file of every format."""
    return (
        Seed("jsonl", "log.jsonl", _jsonl(), plain),
        Seed("json", "trainer_state.json", json.dumps({"log_history": ROWS, "max_steps": 9}).encode(), plain),
        Seed("json-columns", "log.json", json.dumps({"step": [1, 2, 3], "reward": [0.1, 0.2, 0.3]}).encode(), plain),
        Seed("csv", "log.csv", _csv(), plain),
        Seed("wandb-csv", "export.csv", _wandb_csv(), plain),
        Seed("notebook", "run.ipynb", _notebook(), plain),
        Seed("console", "train.log", _console(), plain),
        Seed("parquet", "log.parquet", _parquet(), plain),
        Seed("tensorboard", "events.out.tfevents.1.h.1.0", event_file(tensorboard_records()), plain),
        Seed("tensorboard-records", "events.out.tfevents.1.h.1.0", tensorboard_records(), event_file),
        Seed("wandb", "run-a.wandb", wandb_file(_wandb()), plain),
        Seed("wandb-records", "run-a.wandb", _wandb(), wandb_file),
        Seed("swanlab-records", "run-a.swanlab", _swanlab(), swanlab_file),
        Seed("mlflow", "mlflow.db", _sqlite("mlflow"), plain),
        Seed("trackio", "project.db", _sqlite("trackio"), plain),
        Seed("gzip", "log.jsonl.gz", _jsonl(), gzip.compress),
        Seed("gzip-bytes", "log.jsonl.gz", gzip.compress(_jsonl()), plain),
        Seed("forge-console", "train.log", records.forge(), plain),
        Seed("mlx-console", "train.log", records.mlx(), plain),
        Seed("wrapped-console", "train.log", records.wrapped(), plain),
        Seed("groups", "groups.jsonl", records.groups(), plain),
        Seed("rollouts", "rollouts.jsonl", records.rollouts(), plain),
        Seed("two-processes", "metrics.jsonl", records.two_processes(), plain),
        Seed("tensorboard-rewinds", "events.out.tfevents.1.h.1.0", _rewinds(), event_file),
        Seed("zstd-bytes", "log.jsonl.zst", zstandard.ZstdCompressor().compress(_jsonl()), plain),
    )


# fmt: off
HUGE = (b"1e999", b"-1e308", b"9" * 400, b"NaN", b"-Infinity", b"18446744073709551616", b"1e-320", b"0x10", b"1_0",
        b"\x00")
NESTED = (b"[" * 3000, b'{"a":' * 3000, b"(" * 3000, b"<table><tr><td>" * 500)
BYTES = (b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x80" * 12, b"\r\n", b'"', b"\xef\xbb\xbf", DIVIDER, b"\xc3\x28",
         b"{}", b",")
# fmt: on


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Return the data with one to eight changes of random kinds."""
    for _ in range(rng.randint(1, 8)):
        data = _change(data, rng)
    return data


def _change(data: bytes, rng: random.Random) -> bytes:
    at = rng.randint(0, len(data))
    end = min(len(data), at + rng.randint(0, 64))
    kind = rng.randrange(9)
    if kind == 0:
        return data[:at]
    if kind == 1 and at < len(data):
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + rng.randbytes(rng.randint(1, 16)) + data[at:]
    if kind == 3:
        return data[:at] + data[end:]
    if kind == 4:
        return data[:end] + data[at:end] * rng.randint(1, 20) + data[end:]
    if kind == 5:
        return data[:at] + rng.choice(HUGE) + data[end:]
    if kind == 6:
        return data[:at] + rng.choice(NESTED) + data[at:]
    if kind == 7:
        return _renumber(data, rng)
    return data[:at] + rng.choice(BYTES) + data[at:]


def _renumber(data: bytes, rng: random.Random) -> bytes:
    """Replace a digit run with a number at the edge of what types hold."""
    digits = [i for i, byte in enumerate(data[:20_000]) if 48 <= byte <= 57]
    if not digits:
        return data
    at = rng.choice(digits)
    end = at
    while end < len(data) and 48 <= data[end] <= 57:
        end += 1
    return data[:at] + rng.choice(HUGE) + data[end:]
