"""Crash-safe files: a killed process goes on where it stood, a full disk is waited out, each step is there once."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlvitals.conclude import diagnose
from rlvitals.ingest import load
from rlvitals.live.files import MAX_WAITING, RowFile
from rlvitals.live.monitor import METRICS_FILE, TRANSITIONS_FILE, Monitor
from rlvitals.live.trouble import Troubles
from rlvitals.schema import Event, EventKind, RunConfig

WRITER = """
import sys, time
from rlvitals.live.monitor import Monitor
from rlvitals.schema import RunConfig
monitor = Monitor(RunConfig(group_size=8), trainer="TRL", directory=sys.argv[1])
monitor.begin()
step = max(monitor._rows.last_step, 0)
while True:
    step += 1
    monitor.log(step, {"reward": 0.2 + 0.001 * (step % 7), "entropy": 0.5, "loss": 0.01, "grad_norm": 0.1})
    print(step, flush=True)
"""


def row(step: int) -> dict[str, object]:
    return {"reward": 0.2 + 0.001 * (step % 7), "entropy": 0.5, "loss": 0.01, "grad_norm": 0.1}


def killed(monitor: Monitor) -> None:
    """Let go of a monitor's files as a killed process does."""
    for file in (monitor._rows._file, monitor._rollouts, monitor._transitions):
        assert file is not None
        os.close(file._fd)
        file._fd = -1


@pytest.mark.slow
def test_killed_at_random_points_every_logged_step_is_there_once(tmp_path: Path) -> None:
    rng = random.Random(3)
    last = 0
    for _ in range(6):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        first = int(process.stdout.readline())
        assert first in (last + 1, last + 2), "the new process goes on after what was written"  # one may be unprinted
        time.sleep(rng.uniform(0.05, 0.4))
        process.send_signal(signal.SIGKILL)
        printed = [first, *(int(line) for line in process.stdout.read().split("\n")[:-1] if line)]
        assert process.wait() == -signal.SIGKILL
        assert printed == list(range(first, printed[-1] + 1))
        last = printed[-1]
        written = load(tmp_path / METRICS_FILE).step.tolist()
        assert written in (list(range(1, last + 1)), list(range(1, last + 2)))
        last = written[-1]
    straight = Monitor(RunConfig(group_size=8), trainer="TRL")
    for step in range(1, last + 1):
        straight.log(step, row(step))
    again = Monitor(RunConfig(group_size=8), trainer="TRL", directory=tmp_path)
    assert again.diagnosis().outcomes == straight.diagnosis().outcomes
    assert again.troubles == ()


def test_the_half_line_of_a_killed_process_is_cut_off_and_said(tmp_path: Path) -> None:
    first = Monitor(trainer="TRL", directory=tmp_path)
    for step in range(1, 8):
        first.log(step, row(step))
    first.add_eval("gsm8k", 7, 0.5)
    first.add_event(Event(EventKind.CHECKPOINT, 5, path="/c/5"))
    killed(first)
    with (tmp_path / METRICS_FILE).open("ab") as file:
        file.write(b'{"step": 8, "rew')
    second = Monitor(trainer="TRL", directory=tmp_path)
    for step in range(8, 12):
        second.log(step, row(step))
    found = second.diagnosis()
    assert (found.position.rows, found.position.last_step) == (11, 11)
    assert [t.what for t in second.troubles] == ["the step in flight was lost when the process was killed"]
    assert second._rows.engine.evals["gsm8k"].score.tolist() == [0.5]
    assert [e.path for e in second._rows.events] == ["/c/5"]
    second.close()
    assert load(tmp_path / METRICS_FILE).step.tolist() == list(range(1, 12))


def test_the_directory_is_a_log_that_check_reads_with_the_same_verdict(tmp_path: Path) -> None:
    monitor = Monitor(trainer="TRL", directory=tmp_path)
    for step in range(1, 61):
        bad = float("nan") if step > 40 else 0.01
        monitor.log(step, {**row(step), "loss": bad, "grad_norm": bad})
    monitor.close()
    found = diagnose(load(tmp_path / METRICS_FILE))
    assert (found.verdict.value, found.causes[0].id) == ("stop", "D001")


def test_a_restart_repeats_no_transition(tmp_path: Path) -> None:
    bad = {"reward": 0.5, "loss": float("nan"), "grad_norm": float("nan")}
    first = Monitor(trainer="TRL", directory=tmp_path)
    said = [t.check for s in range(1, 60) for t in first.log(s, row(s) if s < 40 else bad)]
    assert said.count("D001") == 1
    killed(first)
    second = Monitor(trainer="TRL", directory=tmp_path)
    assert [t.check for s in range(60, 90) for t in second.log(s, bad) if t.check == "D001"] == []
    assert (tmp_path / TRANSITIONS_FILE).read_text().count('"check":"D001"') == 1


def test_a_run_resumed_from_a_checkpoint_closes_a_segment(tmp_path: Path) -> None:
    first = Monitor(trainer="TRL", directory=tmp_path)
    for step in range(1, 301):
        first.log(step, row(step))
    killed(first)
    second = Monitor(trainer="TRL", directory=tmp_path)
    for step in range(101, 151):
        second.log(step, row(step))
    found = second.diagnosis()
    assert (found.position.rows, found.position.last_step) == (150, 150)
    (segment,) = second._rows.segments
    assert (segment.first_step, segment.last_step, segment.rows, segment.resumed_at) == (101, 300, 200, 101)
    second.close()
    third = Monitor(trainer="TRL", directory=tmp_path)
    assert third.diagnosis().outcomes == found.outcomes
    assert third._rows.segments == (segment,)


def test_a_full_disk_is_waited_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = Monitor(trainer="TRL", directory=tmp_path)
    write, full = os.pwrite, False

    def pwrite(fd: int, data: bytes, offset: int) -> int:
        if full:
            write(fd, data[:5], offset)  # a disk fills in the middle of a row
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    for step in range(1, 31):
        full = 10 <= step < 20
        monitor.log(step, row(step))
        if step == 15:
            assert load(tmp_path / METRICS_FILE).step.tolist() == list(range(1, 10))
            assert monitor.diagnosis().position.rows == 15
    monitor.close()
    assert load(tmp_path / METRICS_FILE).step.tolist() == list(range(1, 31))
    (trouble,) = monitor.troubles
    assert (trouble.what, trouble.step) == ("a row could not be written yet; it waits in memory", 10)
    assert "No space left" in trouble.detail


def test_a_disk_that_stays_full_costs_the_oldest_waiting_rows_and_says_how_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pwrite(fd: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    troubles = Troubles()
    file = RowFile(tmp_path / "rows.jsonl", troubles)
    monkeypatch.setattr(os, "pwrite", pwrite)
    for step in range(MAX_WAITING + 7):
        file.append({"step": step})
    assert file.waiting == MAX_WAITING
    assert troubles.count("rows lost: the disk took none for too long") == 7
    file.close()
    assert troubles.count("rows lost: the disk took none") == MAX_WAITING


def test_a_directory_that_cannot_be_made_leaves_the_monitor_working(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monitor = Monitor(trainer="TRL", directory=tmp_path / "file" / "below")
    for step in range(1, 31):
        monitor.log(step, row(step))
    monitor.log(5, row(5))  # goes back, too
    assert monitor.diagnosis().position.last_step == 5
    assert "rows are kept in memory only: the file cannot be opened" in [t.what for t in monitor.troubles]


def test_a_second_process_does_not_write_into_the_same_file(tmp_path: Path) -> None:
    first, second = Monitor(trainer="TRL", directory=tmp_path), Monitor(trainer="TRL", directory=tmp_path)
    first.log(1, row(1))
    second.log(1, row(1))
    assert "another process writes to it" in second.troubles[0].detail
    first.close()
    assert (tmp_path / METRICS_FILE).read_text().count("\n") == 1
