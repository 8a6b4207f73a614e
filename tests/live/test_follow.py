"""`check --follow`: rotation, truncation, late writes, half lines, files that do not exist yet; cost of what is new."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlvitals.conclude import diagnose
from rlvitals.ingest import load
from rlvitals.live import follow as module
from rlvitals.live.follow import Follower
from rlvitals.live.tail import Tail


def line(step: int, **more: float) -> str:
    bad = float("nan") if step > 60 else 0.01
    row = {"step": step, "reward": 0.3 + 0.01 * (step % 5), "entropy": 0.4, "loss": bad, "grad_norm": bad, **more}
    return json.dumps(row) + "\n"


def put(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def same(follower: Follower, path: Path) -> None:
    """The diagnosis is that of the files as they are now."""
    ours, theirs = follower.diagnosis(), diagnose(load(path))
    assert ours is not None
    assert (ours.verdict, ours.position, [c.id for c in ours.causes]) == (
        theirs.verdict, theirs.position, [c.id for c in theirs.causes],
    )  # fmt: skip


def test_lines_are_read_as_they_come_and_a_half_line_waits(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    follower = Follower(log)
    assert follower.poll().waiting == f"{log} does not exist yet"
    put(log, "".join(line(s) for s in range(1, 41)))
    assert follower.poll().waiting == ""
    assert follower.how == "read on line by line (jsonl)"
    whole = line(41)
    put(log, whole[:20])
    assert follower.poll().rows == 0
    put(log, whole[20:] + "".join(line(s) for s in range(42, 81)))
    changes = follower.poll().transitions
    assert [(t.check, t.kind.value, t.step) for t in changes if t.check == "D001"] == [("D001", "opened", 65)]
    same(follower, log)
    assert follower.troubles == ()
    follower.close()


def test_nothing_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "metrics.jsonl"
    put(log, "".join(line(s) for s in range(1, 1001)))
    follower = Follower(log)
    follower.poll()
    monkeypatch.setattr(module, "load", lambda *_, **__: pytest.fail("the whole file was read again"))
    read = 0
    pread = os.pread

    def counted(fd: int, size: int, at: int) -> bytes:
        nonlocal read
        found = pread(fd, size, at)
        read += len(found)
        return found

    monkeypatch.setattr(os, "pread", counted)
    for step in range(1001, 1101):
        put(log, line(step))
        assert follower.poll().rows == 1
    assert read < 2 * len("".join(line(s) for s in range(1001, 1101)))
    found = follower.diagnosis()
    assert found is not None
    assert found.position.rows == 1100


def test_a_rotated_log_goes_on_in_the_new_file(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    put(log, "".join(line(s) for s in range(1, 31)))
    follower = Follower(log)
    follower.poll()
    put(log, line(31))  # written after the last poll, before the rotation
    log.rename(tmp_path / "metrics.jsonl.1")
    put(log, "".join(line(s) for s in range(32, 51)))
    follower.poll()
    found = follower.diagnosis()
    assert found is not None
    assert (found.position.rows, found.position.last_step) == (50, 50)


def test_a_copy_that_is_replaced_as_a_whole_rewinds_nothing(tmp_path: Path) -> None:
    log, copy = tmp_path / "metrics.jsonl", tmp_path / "copy"
    put(log, "".join(line(s) for s in range(1, 31)))
    follower = Follower(log)
    follower.poll()
    for upto in (40, 50):
        copy.write_text("".join(line(s) for s in range(1, upto + 1)))
        copy.rename(log)
        follower.poll()
        same(follower, log)
    assert follower.monitor is not None
    assert follower.monitor._rows.segments == ()
    put(log, line(51))
    follower.poll()
    same(follower, log)


def test_a_log_that_is_cut_and_written_anew_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    put(log, "".join(line(s) for s in range(1, 51)))
    follower = Follower(log)
    follower.poll()
    log.write_text("".join(line(s) for s in range(21, 31)))  # a trainer that opens its log anew on resume
    follower.poll()
    found = follower.diagnosis()
    assert found is not None
    assert (found.position.rows, found.position.last_step) == (30, 30)
    assert [t.what for t in follower.troubles] == ["the log was cut or written anew: read from its start"]


def test_a_file_that_vanishes_and_comes_back(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    put(log, "".join(line(s) for s in range(1, 31)))
    follower = Follower(log)
    follower.poll()
    log.unlink()
    assert follower.poll().rows == 0
    put(log, "".join(line(s) for s in range(31, 41)))
    follower.poll()
    found = follower.diagnosis()
    assert found is not None
    assert found.position.rows == 40


def test_late_writes_of_another_process_join_their_steps(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    put(log, "".join(line(s) for s in range(1, 31)))
    follower = Follower(log)
    follower.poll()
    put(log, line(31) + line(32) + json.dumps({"step": 31, "kl": 0.01}) + "\n" + line(33))
    follower.poll()
    assert follower.monitor is not None
    row = follower.monitor._rows.row(31)
    assert row is not None
    assert row["kl_ref"] == 0.01
    assert follower.monitor._rows.segments == ()


def test_a_csv_and_a_console_log_are_read_on(tmp_path: Path) -> None:
    table, console = tmp_path / "metrics.csv", tmp_path / "train.log"
    put(table, "step,reward,entropy\n" + "".join(f"{s},0.{s:03d},0.5\n" for s in range(1, 31)))
    put(console, "".join(f"step:{s} - critic/score/mean:0.{s:03d} - actor/entropy:0.5\n" for s in range(1, 31)))
    for path, kind in ((table, "csv"), (console, "console")):
        follower = Follower(path)
        follower.poll()
        assert follower.how == f"read on line by line ({kind})"
        if path is table:
            put(path, "".join(f"{s},0.{s:03d},0.5\n" for s in range(31, 41)))
        else:
            put(path, "".join(f"step:{s} - critic/score/mean:0.{s:03d} - actor/entropy:0.5\n" for s in range(31, 41)))
        assert follower.poll().rows == 10
        same(follower, path)


def test_a_format_that_cannot_be_read_on_is_read_again_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_SHARE", 1e9)  # no waiting in a test
    state = tmp_path / "trainer_state.json"

    def write(upto: int) -> None:
        state.write_text(json.dumps({"log_history": [json.loads(line(s)) for s in range(1, upto + 1)]}))

    write(30)
    follower = Follower(tmp_path)
    follower.poll()
    assert follower.how == ("read again as a whole when its files change: json files cannot be read on line by line")
    write(80)
    assert "D001" in [t.check for t in follower.poll().transitions]
    same(follower, tmp_path)
    assert follower.poll().rows == 0  # nothing has changed


def test_a_directory_that_does_not_exist_yet(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "run")
    assert follower.poll().waiting == f"{tmp_path / 'run'} does not exist yet"
    (tmp_path / "run").mkdir()
    assert "no log found" in follower.poll().waiting
    put(tmp_path / "run" / "metrics.jsonl", "".join(line(s) for s in range(1, 31)))
    follower._next_load = 0.0
    assert follower.poll().waiting == ""
    put(tmp_path / "run" / "metrics.jsonl", line(31))
    follower.poll()
    same(follower, tmp_path / "run")


def test_a_line_longer_than_any_record_is_skipped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlvitals.live.tail.MAX_LINE", 1_000)
    monkeypatch.setattr("rlvitals.live.tail.PIECE", 256)
    log = tmp_path / "log"
    tail = Tail(log)
    put(log, "a\n" + "x" * 5_000)
    assert tail.poll().lines == (b"a",)
    put(log, "x" * 5_000 + "\nb\n")
    found = tail.poll()
    assert (found.lines, found.skipped) == ((b"b",), 0)


@pytest.mark.parametrize(
    "name", ["redteam_stage1.jsonl", "ch7_7_5_plus_kl.csv", "dstack_ppo_gsm8k.log", "f1_grpo.json"]
)
def test_a_real_log_that_grows_gives_the_diagnosis_of_the_whole(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(module, "READ_SHARE", 1e9)
    whole = (shared / "corpus" / "runs" / name).read_bytes().rstrip(b"\n") + b"\n"
    log = tmp_path / name
    follower = Follower(log)
    for share in (0.4, 0.7, 1.0):
        log.write_bytes(whole[: int(share * len(whole))])
        follower.poll()
        follower.poll()
    same(follower, log)


@pytest.mark.parametrize("format", ["terminal", "json", "html", "to a file"])
def test_the_command_prints_changes_and_ends_with_the_diagnosis(tmp_path: Path, format: str) -> None:
    """As text both go to stdout; where stdout is a document it holds nothing else, and changes go to stderr."""
    log, out_file = tmp_path / "metrics.jsonl", tmp_path / "found.json"
    how = ["--format", format] if format != "to a file" else ["--out", str(out_file)]
    command = [sys.executable, "-m", "rlvitals", "check", "--follow", str(log), *how]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("Following ")
    assert process.stderr.readline() == f"Waiting: {log} does not exist yet\n"
    put(log, "".join(line(s) for s in range(1, 81)))
    assert "80 steps to step 80, read on line by line (jsonl)." in process.stderr.readline()
    assert process.stdout is not None
    said = process.stderr if format in ("json", "html") else process.stdout
    changes = [said.readline()]
    while "D001" not in changes[-1]:
        changes.append(said.readline())
    assert "opened    D001 non-finite-values [stop]" in changes[-1]
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    if format == "terminal":
        assert " STOP  grad_norm is not finite since step" in out
    elif format == "html":
        assert out.startswith("<!doctype html>")
        assert out.rstrip().endswith("</html>")
    else:
        found = json.loads(out if format == "json" else out_file.read_text())
        assert (found["verdict"], found["run"]["rows"]) == ("stop", 80)


def test_what_cannot_be_followed_is_said(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rlvitals", "check", "--follow", "--each", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "cannot be followed" in done.stderr
    assert "--each and --follow exclude each other" in done.stderr
