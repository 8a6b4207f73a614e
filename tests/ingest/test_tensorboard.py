"""TensorBoard event files: exact values against the tensorboard package, restarts, damage, settings."""

from __future__ import annotations

import gzip
import json
import math
import struct
from pathlib import Path

import numpy as np
import pytest
import zstandard
from benchmarks.tensorboard import bytes_field, framed, scalar_event, varint_bytes

from rlvitals.errors import SeveralRuns
from rlvitals.ingest import load
from rlvitals.ingest.readers import read as read_any
from rlvitals.ingest.readers.tensorboard import read
from rlvitals.ingest.readers.tfrecord import crc32c, mask
from rlvitals.ingest.sources import Source
from rlvitals.ingest.table import RawTable
from rlvitals.schema import NONFINITE_PREFIX, EventKind, Segment

START = framed(b"\x09" + struct.pack("<d", 1.7e9) + bytes_field(3, b"brain.Event:2"))


def log(step: int, /, **values: float) -> bytes:
    """Return one record per value, as SummaryWriter.add_scalar writes them; "__" in a name stands for "/"."""
    return b"".join(framed(scalar_event(1.7e9 + step, step, k.replace("__", "/"), v)) for k, v in values.items())


def write(path: Path, data: bytes, start: float = 1.7e9) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(framed(b"\x09" + struct.pack("<d", start) + bytes_field(3, b"brain.Event:2")) + data)
    return path


def table(path: Path) -> RawTable:
    (only,) = read(Source(str(path), path))
    return only


def trl_rows(first: int, last: int, reward: float = 0.0) -> bytes:
    return b"".join(
        log(s, train__reward=reward + s / 64, train__reward_std=0.25, train__completions__mean_length=100.0 + s)
        for s in range(first, last + 1)
    )


def test_checksum_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # source: RFC 3720, CRC-32C check value
    assert mask(0xE3069283) == (((0xE3069283 >> 15) | (0xE3069283 << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def test_samples_have_exactly_the_values_that_tensorboard_reads(shared: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    files = sorted(shared.glob("formats/**/*tfevents*"))
    assert len(files) == 8
    for path in files:
        oracle = accumulator.EventAccumulator(str(path), size_guidance={"scalars": 0}).Reload()
        got = table(path)
        tags = oracle.Tags()["scalars"]
        assert set(got.columns) - {"step"} == set(tags)
        for tag in tags:
            steps, values = zip(*[(event.step, event.value) for event in oracle.Scalars(tag)], strict=True)
            rows = np.searchsorted(got.columns["step"], steps)
            assert got.columns[tag][rows].tolist() == list(values)
            assert np.isfinite(got.columns[tag]).sum() == len(set(steps))


def test_every_kind_of_scalar_against_the_tensorboard_package(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    from tensorboard.util.tensor_util import make_tensor_proto

    writer = EventFileWriter(str(tmp_path))
    types = {"float": np.float32, "double": np.float64, "half": np.float16, "whole": np.int64}
    for step in (0, 1, 127, 128, 20_000, 3_000_000):
        values = [Summary.Value(tag="simple", simple_value=step + 0.1)]
        values += [Summary.Value(tag=n, tensor=make_tensor_proto(t(step % 999 + 0.5))) for n, t in types.items()]
        writer.add_event(Event(step=step, wall_time=step + 1.5, summary=Summary(value=values)))
    writer.close()
    (path,) = tmp_path.iterdir()
    got = table(path)
    assert got.columns["step"].tolist() == [0, 1, 127, 128, 20_000, 3_000_000]
    assert got.columns["simple"].tolist() == [float(np.float32(s + 0.1)) for s in (0, 1, 127, 128, 20_000, 3_000_000)]
    want = [0.5, 1.5, 127.5, 128.5, 20_000 % 999 + 0.5, 3_000_000 % 999 + 0.5]
    assert got.columns["float"].tolist() == got.columns["double"].tolist() == want
    assert got.columns["half"].tolist() == want
    assert got.columns["whole"].tolist() == [math.floor(value) for value in want]
    oracle = EventAccumulator(str(path), size_guidance={"scalars": 0}).Reload()
    assert [e.value for e in oracle.Scalars("simple")] == got.columns["simple"].tolist()


def test_a_run_folder_agrees_with_the_trainer_state_of_the_same_run(shared: Path) -> None:
    events = load(shared / "formats/trl/grpo_out/runs")
    state = load(shared / "formats/trl/grpo_out/trainer_state.json")
    assert events.trainer.name == state.trainer.name == "TRL"
    assert events.step.tolist() == state.step.tolist()
    for name in ("reward_mean", "reward_part/correct", "kl_ref", "entropy", "zero_variance_frac", "grad_norm"):
        np.testing.assert_allclose(events.columns[name], state.columns[name], rtol=1e-6)
    assert events.evals["correct"].step.tolist() == state.evals["correct"].step.tolist() == [5, 10, 15, 16]


def test_verl_events_agree_with_the_file_logger_of_the_same_run(shared: Path) -> None:
    events, jsonl = load(shared / "formats/verl/tensorboard_log"), load(shared / "formats/verl/file_logger")
    assert events.trainer.name == "verl"
    assert events.step.tolist() == jsonl.step.tolist()
    for name, column in jsonl.columns.items():
        np.testing.assert_allclose(events.columns[name], column, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_restart_replaces_the_steps_after_its_first(tmp_path: Path) -> None:
    runs = tmp_path / "out" / "runs"
    write(runs / "Nov29_10-00-00_host" / "events.out.tfevents.100.host.1.0", trl_rows(1, 8), 100.0)
    write(runs / "Nov30_10-00-00_host" / "events.out.tfevents.200.host.2.0", trl_rows(6, 10, 0.5), 200.0)
    run = load(tmp_path / "out")
    assert run.step.tolist() == list(range(1, 11))
    assert run.columns["reward_mean"].tolist() == [s / 64 + (0.5 if s >= 6 else 0.0) for s in range(1, 11)]
    assert run.segments == (Segment(6, 8, 3, 6, "rewind"),)
    assert [(e.kind, e.step) for e in run.events] == [(EventKind.RESUME, 6)]


def test_a_restart_inside_one_file_is_a_rewind_for_every_tag(tmp_path: Path) -> None:
    data = trl_rows(1, 5) + log(5, eval__reward=0.25) + trl_rows(4, 6, 0.5) + log(5, eval__reward=0.75)
    run = load(write(tmp_path / "events.out.tfevents.1.h.1.0", data))
    assert run.step.tolist() == [1, 2, 3, 4, 5, 6]
    assert run.columns["reward_mean"].tolist() == [s / 64 + (0.5 if s >= 4 else 0.0) for s in range(1, 7)]
    assert run.segments == (Segment(4, 5, 2, 4, "rewind"),)
    assert (run.evals["reward"].step.tolist(), run.evals["reward"].score.tolist()) == ([5], [0.75])


def test_writers_with_other_tags_are_joined_by_step(tmp_path: Path) -> None:
    write(tmp_path / "events.out.tfevents.100.a.1.0", trl_rows(1, 4))
    write(tmp_path / "events.out.tfevents.101.b.2.0", b"".join(log(s, train__kl=s / 8) for s in range(1, 5)))
    run = load(tmp_path)
    assert run.step.tolist() == [1, 2, 3, 4]
    assert run.columns["kl_ref"].tolist() == [0.125, 0.25, 0.375, 0.5]
    assert run.columns["reward_mean"].tolist() == [s / 64 for s in range(1, 5)]


def test_two_runs_in_one_folder_are_named_and_an_aborted_start_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "exp1" / "events.out.tfevents.1.h.1.0", trl_rows(1, 4))
    write(tmp_path / "exp2" / "events.out.tfevents.2.h.1.0", trl_rows(1, 7, 0.5))
    with pytest.raises(SeveralRuns, match="2 runs; found exp1, exp2"):
        load(tmp_path)
    write(tmp_path / "exp1" / "events.out.tfevents.1.h.1.0", trl_rows(1, 3))
    run = load(tmp_path)
    assert (run.rows, run.columns["reward_mean"][0]) == (7, 0.5 + 1 / 64)
    assert run.notes[0].text.endswith("left out exp1/events.out.tfevents.1.h.1.0")


def test_later_steps_are_taken_from_the_events_when_the_state_stops_at_a_checkpoint(tmp_path: Path) -> None:
    rows = [{"step": s, "reward": s / 64, "reward_std": 0.25, "completions/mean_length": 100.0 + s} for s in (1, 2, 3)]
    (tmp_path / "checkpoint-3").mkdir()
    (tmp_path / "checkpoint-3" / "trainer_state.json").write_text(json.dumps({"log_history": rows}))
    write(
        tmp_path / "runs" / "Nov29_10-00-00_h" / "events.out.tfevents.1.h.1.0",
        trl_rows(1, 3) + log(4, train__reward=0.5),
    )
    run = load(tmp_path)
    assert run.columns["reward_mean"].tolist() == [1 / 64, 2 / 64, 3 / 64, 0.5]
    assert "took later steps from runs/Nov29_10-00-00_h" in run.notes[0].text
    assert run.segments == ()


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gz", "zst"])
def test_packed(tmp_path: Path, pack: object) -> None:
    suffix = "gz" if pack is gzip.compress else "zst"
    path = tmp_path / f"events.out.tfevents.1.h.1.0.{suffix}"
    path.write_bytes(pack(START + trl_rows(1, 3)))  # type: ignore[operator]
    assert load(path).columns["reward_mean"].tolist() == [1 / 64, 2 / 64, 3 / 64]
    assert load(tmp_path).rows == 3


def test_a_changed_byte_costs_its_own_record_only(tmp_path: Path) -> None:
    data = bytearray(START + b"".join(log(s, a=s / 2, b=1.0) for s in range(1, 31)))
    data[-6] ^= 0x10  # in the last record's value
    path = tmp_path / "events.out.tfevents.1.h.1.0"
    path.write_bytes(data)
    got = table(path)
    assert got.columns["a"].tolist() == [s / 2 for s in range(1, 31)]
    assert np.flatnonzero(np.isnan(got.columns["b"])).tolist() == [29]
    assert [(n.text, n.count) for n in got.notes] == [("skipped records with a wrong checksum or no event in them", 1)]


def test_lost_bytes_in_the_middle_cost_what_they_touch(tmp_path: Path) -> None:
    data = START + b"".join(log(s, a=s / 2) for s in range(1, 31))
    size = len(log(1, a=0.5))
    cut = len(START) + 10 * size + 5
    path = tmp_path / "events.out.tfevents.1.h.1.0"
    path.write_bytes(data[:cut] + data[cut + 7 :])
    got = table(path)
    assert got.columns["step"].tolist() == [s for s in range(1, 31) if s != 11]
    assert got.notes[0].text == f"skipped {size - 7} damaged bytes between records"


def test_a_half_written_record_at_the_end_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1.h.1.0"
    path.write_bytes((START + trl_rows(1, 3))[:-5])
    run = load(path)
    assert run.rows == 3
    assert [n.text.split(":")[0] for n in run.notes] == ["the file ends inside a record"]


def test_nan_and_infinity_are_logged_values(tmp_path: Path) -> None:
    path = write(
        tmp_path / "events.out.tfevents.1.h.1.0", trl_rows(1, 3) + log(4, train__reward=math.nan) + trl_rows(5, 9)
    )
    run = load(path)
    assert np.isnan(run.columns["reward_mean"][3])
    assert np.flatnonzero(run.columns[NONFINITE_PREFIX + "reward_mean"] == 1.0).tolist() == [3]


def _text_event(tag: str, text: str) -> bytes:
    tensor = b"\x08\x07" + bytes_field(8, text.encode())  # dtype DT_STRING, string_val
    value = bytes_field(1, bytes_field(1, tag.encode()) + bytes_field(8, tensor))
    return framed(b"\x09" + struct.pack("<d", 1.7e9) + bytes_field(5, value))


def test_trl_arguments_reach_the_config(tmp_path: Path) -> None:
    arguments = {"num_generations": 8, "beta": 0.04, "epsilon": 0.2, "max_completion_length": 512, "loss_type": "dapo"}
    data = _text_event("args/text_summary", json.dumps(arguments, indent=2)) + trl_rows(1, 3)
    model = {"architectures": ["X"], "hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 151936}
    data += _text_event("model_config/text_summary", json.dumps(model))
    run = load(write(tmp_path / "events.out.tfevents.1.h.1.0", data))
    config = run.config
    assert (config.group_size, config.kl_coef, config.token_budget, config.loss_type) == (8, 0.04, 512, "dapo")
    assert config.vocab_size == 151936
    assert config.sources["kl_coef"] == "TensorBoard args/text_summary: beta"


def test_hyperparameters_of_a_subfolder_reach_the_config(tmp_path: Path) -> None:
    def entry(key: str, value: bytes) -> bytes:
        return bytes_field(1, bytes_field(1, key.encode()) + bytes_field(2, value))

    start = entry("num_generations", b"\x11" + struct.pack("<d", 16.0)) + entry("loss_type", bytes_field(3, b"bnpo"))
    plugin = bytes_field(1, b"hparams") + bytes_field(2, bytes_field(3, start))
    value = bytes_field(1, b"_hparams_/session_start_info") + bytes_field(9, bytes_field(1, plugin))
    write(tmp_path / "1700000000.5" / "events.out.tfevents.2.h.1.1", framed(bytes_field(5, bytes_field(1, value))))
    write(tmp_path / "events.out.tfevents.1.h.1.0", trl_rows(1, 3))
    run = load(tmp_path)
    assert (run.rows, run.config.group_size, run.config.loss_type) == (3, 16, "bnpo")


def test_a_tag_named_step_does_not_hide_the_step(tmp_path: Path) -> None:
    got = table(write(tmp_path / "events.out.tfevents.1.h.1.0", b"".join(log(s, step=9.0, a=1.0) for s in range(1, 4))))
    assert got.columns["step"].tolist() == [1, 2, 3]
    assert got.columns["step (logged)"].tolist() == [9, 9, 9]


def test_records_without_scalars_are_no_rows(tmp_path: Path) -> None:
    histogram = bytes_field(5, bytes_field(1, bytes_field(1, b"h") + bytes_field(5, b"\x09" + bytes(8))))
    path = write(tmp_path / "events.out.tfevents.1.h.1.0", framed(b"\x10" + varint_bytes(3) + histogram) * 20)
    assert read(Source(str(path), path)) == []
    with pytest.raises(Exception, match="no metric rows found"):
        read_any(Source(str(path), path))
