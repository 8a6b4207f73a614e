"""Kills, full disks and clocks that jump: every logged step is there once, or the loss is said."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlvitals.ingest import load
from rlvitals.live.follow import Follower
from rlvitals.live.monitor import METRICS_FILE, Monitor
from tests.cli.runs import trl_rows
from tests.live.processes import Process, follow, get, killed, serve
from tests.live.site import client, id_of, rollout_rows

STEPS = 400


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder on a file system of 256 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)


def put(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))


def grow(folder: Path, at: int, upto: int) -> int:
    """Write the steps after `at` up to `upto`, with their rollouts; return `upto`."""
    put(folder / "log.jsonl", trl_rows(STEPS)[at:upto])
    put(folder / "rollouts" / "all.jsonl", rollout_rows(STEPS, 1, 4)[4 * at : 4 * upto])
    return upto


def fill(folder: Path) -> Path:
    """Fill what is left of a file system."""
    path = folder / "filling"
    with path.open("ab", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return path


def append(path: Path, rows: list[dict[str, object]]) -> None:
    """Write rows as far as the file system takes them, the last one in part."""
    with path.open("ab", buffering=0) as file:
        for row in rows:
            data = json.dumps(row).encode() + b"\n"
            while data:
                data = data[file.write(data) :]


def steps_shown(page: Process, folder: Path) -> list[int]:
    panel = get(page, f"/api/runs/{id_of(folder)}/series?points=4000&panels=reward")["panels"].get("reward")
    return [] if panel is None else panel["lines"][0]["x"]


@pytest.mark.slow
def test_a_page_that_is_killed_and_started_again_shows_every_step_once(tmp_path: Path) -> None:
    rng = random.Random(5)
    folder, at = tmp_path / "run", 0
    at = grow(folder, at, 20)
    for _ in range(4):
        with serve(tmp_path) as page:
            until = time.monotonic() + rng.uniform(0.1, 4.0)
            while time.monotonic() < until:
                at = grow(folder, at, min(at + rng.randrange(1, 8), STEPS))
                time.sleep(0.1)
            killed(page)
    with serve(tmp_path) as page:
        at = grow(folder, at, min(at + 10, STEPS))
        end = time.monotonic() + 90
        while steps_shown(page, folder) != list(range(1, at + 1)) and time.monotonic() < end:
            time.sleep(0.2)
        assert steps_shown(page, folder) == list(range(1, at + 1))
        notes = get(page, f"/api/runs/{id_of(folder)}")["diagnosis"]["run"]["source"]["reader_notes"]
    assert [n["count"] for n in notes if " rollouts from " in n["text"]] == [4 * at]


@pytest.mark.slow
def test_a_follower_that_is_killed_and_started_again_has_every_step_once(tmp_path: Path) -> None:
    rng = random.Random(6)
    folder, at = tmp_path / "run", 0
    for _ in range(4):
        with follow(folder) as follower:
            until = time.monotonic() + rng.uniform(0.1, 3.0)
            while time.monotonic() < until:
                at = grow(folder, at, min(at + rng.randrange(1, 8), STEPS))
                time.sleep(0.1)
            killed(follower)
    with follow(folder) as follower:
        at = grow(folder, at, min(at + 10, STEPS))
        follower.said("read on line by line")
        at = grow(folder, at, min(at + 10, STEPS))
        follower.send(signal.SIGINT)
        found = follower.diagnosis()
    assert (found["run"]["rows"], found["run"]["last_step"]) == (at, at)


def test_a_full_temporary_disk_hides_no_step_from_the_page(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    folder = tmp_path / "runs" / "run"
    grow(folder, 0, 40)
    with client(tmp_path / "runs") as browser:
        filling = fill(small_disk)
        grow(folder, 40, 80)
        end = time.monotonic() + 30
        place = f"/api/runs/{id_of(folder)}"
        while browser.get(place).json()["last_step"] != 80 and time.monotonic() < end:
            time.sleep(0.1)
        shown = browser.get(place).json()
        assert (shown["last_step"], shown["problems"]) == (80, [])
        answer = browser.get(f"{place}/rollouts")
        assert answer.status_code == 503, answer.text
        assert answer.json()["problems"][0]["what"] == "rollouts cannot be indexed"
        filling.unlink()
        end = time.monotonic() + 30
        while browser.get(f"{place}/rollouts").json().get("total") != 320 and time.monotonic() < end:
            time.sleep(0.1)
        assert browser.get(f"{place}/rollouts").json()["total"] == 320


def test_a_log_on_a_full_disk_loses_what_it_lost_and_that_is_said(small_disk: Path) -> None:
    log = small_disk / "metrics.jsonl"
    rows = trl_rows(60)
    put(log, rows[:30])
    follower = Follower(log)
    follower.poll()
    filling = fill(small_disk)
    with pytest.raises(OSError, match="No space left"):  # what fits into the last block is written
        append(log, rows[30:50])
    whole = log.read_text().count("\n")
    torn = not log.read_text().endswith("\n")
    assert follower.poll().rows == whole - 30
    filling.unlink()
    put(log, rows[50:])  # the first of them follows the torn line
    follower.poll()
    found = follower.diagnosis()
    assert found is not None
    kept = [*range(1, whole + 1), *range(52 if torn else 51, 61)]
    assert follower.monitor is not None
    assert (found.position.rows, found.position.last_step) == (len(kept), 60)
    assert [t.what for t in follower.troubles] == ["lines that are no records"] * torn
    assert load(log).step.tolist() == kept
    follower.close()


def test_a_monitor_on_a_full_disk_writes_every_step_once_there_is_room(small_disk: Path) -> None:
    monitor = Monitor(trainer="TRL", directory=small_disk / "vitals")
    filling = None
    for step, row in enumerate(trl_rows(60), 1):
        if step == 20:
            filling = fill(small_disk)
        if step == 45 and filling is not None:
            filling.unlink()
        monitor.log(step, row)
    monitor.close()
    assert load(small_disk / "vitals" / METRICS_FILE).step.tolist() == list(range(1, 61))
    assert "a row could not be written yet; it waits in memory" in [t.what for t in monitor.troubles]


def jumping() -> Iterator[float]:
    """Yield wall clocks of a machine whose clock is set back and forth."""
    for n in range(10**6):
        yield (1.8e9, 1.0, 4e9, 1.7e9, -5.0)[n % 5] + n


def test_clocks_that_jump_lose_no_step_of_a_monitor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = jumping()
    monkeypatch.setattr(time, "time", lambda: next(clock))
    monitor = Monitor(trainer="TRL", directory=tmp_path)
    for step, row in enumerate(trl_rows(80), 1):
        monitor.log(step, {**row, "_timestamp": time.time(), "wall_time": time.time()})
    assert (monitor.diagnosis().position.rows, monitor.diagnosis().position.last_step) == (80, 80)
    monitor.close()
    assert monitor.troubles == ()
    again = Monitor(trainer="TRL", directory=tmp_path)
    assert again.diagnosis().position.rows == 80
    again.close()


def test_clocks_that_jump_lose_no_step_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, at = tmp_path / "runs" / "run", 0
    at = grow(folder, at, 30)
    follower = Follower(folder)
    follower.poll()
    clock = jumping()
    with client(tmp_path / "runs") as browser:
        monkeypatch.setattr("rlvitals.live.web.runs.time.time", lambda: next(clock))
        for _ in range(5):
            at = grow(folder, at, at + 10)
            for path in (folder / "log.jsonl", folder / "rollouts" / "all.jsonl"):
                os.utime(path, (abs(next(clock)), abs(next(clock))))
            follower.poll()
            end = time.monotonic() + 30
            while browser.get(f"/api/runs/{id_of(folder)}").json()["last_step"] != at and time.monotonic() < end:
                time.sleep(0.05)
            assert browser.get(f"/api/runs/{id_of(folder)}").json()["last_step"] == at
    found = follower.diagnosis()
    assert found is not None
    assert (found.position.rows, found.position.last_step) == (at, at)
    assert follower.troubles == ()
    assert follower._growing._grown.still_holds([folder / "rollouts" / "all.jsonl"])
    follower.close()
