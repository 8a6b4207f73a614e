"""Whatever stands in a file: a run with rows, or an InputError; never another exception, never an empty run."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlvitals.errors import InputError
from rlvitals.ingest import load
from rlvitals.ingest.segments import merge_repeats, split
from rlvitals.ingest.table import TableBuilder

KEYS = ("step", "reward", "loss", "kl", "eval_reward", "completion_length", "rewards/f", "epoch", "data", "x" * 400)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(0, 20),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from(["5/0", "3/10", "nan", "-inf", "12%", "", "x", "1e999", "9" * 80]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["mean", "a/b"]), st.floats(), max_size=2),
)
ROWS = st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8), min_size=1, max_size=25)
FAST = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

SAMPLES = (
    b"".join(json.dumps({"step": s, "reward": s / 9, "kl": 0.1, "loss": 0.5}).encode() + b"\n" for s in range(9)),
    b"step,reward,kl\n" + b"".join(b"%d,0.%d,0.1\n" % (s, s) for s in range(9)),
    b"".join(b"{'loss': 0.1, 'reward': 0.%d, 'reward_std': nan, 'epoch': 0.%d}\r\n" % (s, s) for s in range(9)),
    b"".join(b"(Task pid=1) step:%d - critic/score/mean:np.float64(0.%d) - actor/lr:1e-6\n" % (s, s) for s in range(9)),
    json.dumps({"log_history": [{"step": s, "reward": s / 9, "kl": 0.1} for s in range(9)]}, indent=1).encode(),
)


def check(data: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        try:
            run = load(path)
        except InputError:
            return
        assert run.rows > 0
        assert bool(np.all(np.diff(run.step) > 0))


@FAST
@given(ROWS)
def test_any_rows(rows: list[dict[str, object]]) -> None:
    check("".join(json.dumps(row) + "\n" for row in rows).encode(), "log.jsonl")


@FAST
@given(st.sampled_from(SAMPLES), st.lists(st.tuples(st.integers(0, 2000), st.binary(max_size=4)), max_size=8))
def test_damaged_files(sample: bytes, damage: list[tuple[int, bytes]]) -> None:
    data = bytearray(sample)
    for position, piece in damage:
        at = position % (len(data) + 1)
        data[at : at + len(piece)] = piece[::-1] + piece
    check(bytes(data), "train.log")


@FAST
@given(st.lists(st.integers(0, 12), min_size=1, max_size=60))
def test_split_keeps_the_last_word_on_every_step(steps: list[int]) -> None:
    step = np.array(steps, dtype=np.int64)
    found = split(step, np.arange(step.size))
    left = step[found.rows]
    assert bool(np.all(np.diff(left) >= 0))
    assert found.rows.size + sum(s.rows for s in found.segments) == step.size
    merged, columns = merge_repeats(left, {"row": found.rows.astype(float)})
    assert bool(np.all(np.diff(merged) > 0))
    assert columns["row"][-1] == step.size - 1  # the newest row is always part of the current series
    expected: dict[int, int] = {}
    for row, s in enumerate(steps):
        expected = {k: v for k, v in expected.items() if k < s}
        expected[s] = row
    assert dict(zip(merged.tolist(), columns["row"].astype(int).tolist(), strict=True)) == expected


def test_sparse_keys_cannot_blow_up_memory() -> None:
    builder = TableBuilder("x")
    for i in range(3000):
        builder.add({"step": i, f"key_{i}": 1.0}, i)
    table = builder.build()
    assert len(table.columns) * table.rows <= 2_000_000
    assert "step" in table.columns
    assert any("rare keys" in note.text for note in table.notes)


def test_a_share_that_is_no_number_is_left_out_of_a_line_with_bars(tmp_path: Path) -> None:
    path = tmp_path / "orchestrator.log"
    share = ("37.5", "37.5" * 9, "12.5")
    path.write_text(
        "".join(f"Step {s} | Reward 0.{s} | Max Off-Policy 1 | Trainable 3/8 ({share[s - 1]}%)\n" for s in (1, 2, 3))
    )
    assert load(path).columns["reward_mean"].tolist() == [0.1, 0.2, 0.3]
