"""Twenty growing runs with rollouts against one page and one `check --follow`: everything logged is there, memory flat.

RLVITALS_LOAD_SECONDS=60 is the length that docs/measurements.md reports; the usual one is shorter.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.cli.runs import trl_rows
from tests.live.processes import Process, follow, get, resident_mb, serve
from tests.live.site import id_of, rollout_rows

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to read the memory from"),
]
RUNS = 20
SECONDS = float(os.environ.get("RLVITALS_LOAD_SECONDS", "15"))
STEPS_PER_SECOND = 10
ROLLOUTS = 64
MAX_GROWTH_MB = 120  # over the last third of the time, of the page: 20 runs
CATCH_UP = 300  # seconds after the last step in which everything must be shown, on a machine that does other work too


class Writer(threading.Thread):
    """Appends 10 steps a second to each run: one row, and the 64 rollouts of the step."""

    def __init__(self, folders: list[Path]) -> None:
        super().__init__()
        self.folders, self.steps = folders, 0

    def run(self) -> None:
        rows = [json.dumps(r) + "\n" for r in trl_rows(int(SECONDS * STEPS_PER_SECOND))]
        dump = "".join(json.dumps(r) + "\n" for r in rollout_rows(1, 8, ROLLOUTS // 8))
        begin = time.monotonic()
        for step, row in enumerate(rows, 1):
            rollouts = dump.replace('"step": 1,', f'"step": {step},')
            for folder in self.folders:
                with (folder / "log.jsonl").open("a") as file:
                    file.write(row)
                with (folder / "rollouts" / "all.jsonl").open("a") as file:
                    file.write(rollouts)
            self.steps = step
            time.sleep(max(0.0, begin + step / STEPS_PER_SECOND - time.monotonic()))
        self.seconds = time.monotonic() - begin


@pytest.mark.timeout(900)
def test_nothing_logged_is_lost_and_memory_stays_flat(tmp_path: Path) -> None:
    folders = [tmp_path / f"run-{n:02}" for n in range(RUNS)]
    for folder in folders:
        (folder / "rollouts").mkdir(parents=True)
        (folder / "log.jsonl").touch()
    writer = Writer(folders)
    with serve(tmp_path) as page, follow(folders[0] / "log.jsonl") as follower:
        writer.start()
        sizes, slowest = _watched(page, follower, writer)
        late = _caught_up(page, writer.steps)
        for folder in (folders[0], folders[-1]):
            _all_there(page, folder, writer.steps)
        end = resident_mb(page.pid), resident_mb(follower.pid)
        follower.send(signal.SIGINT)
        found = follower.diagnosis()
        assert (found["run"]["rows"], found["run"]["last_step"]) == (writer.steps, writer.steps)
    third = sizes[2 * len(sizes) // 3]
    rate = writer.steps / writer.seconds
    print(
        f"{RUNS} runs, {writer.steps} steps each at {rate:.1f} a second, all shown {late:.0f} s after the last; "
        f"slowest answer {slowest:.2f} s; page {sizes[0][0]:.0f}, {third[0]:.0f}, {end[0]:.0f} MB, "
        f"follow {sizes[0][1]:.0f}, {third[1]:.0f}, {end[1]:.0f} MB at the start, after two thirds, "
        f"at the end; load {os.getloadavg()}"
    )
    assert end[0] - third[0] < MAX_GROWTH_MB
    assert end[1] - third[1] < MAX_GROWTH_MB / 4


def _watched(page: Process, follower: Process, writer: Writer) -> tuple[list[tuple[float, float]], float]:
    """Look at the page while runs grow; return memory of page and follower in MB, slowest answer in s."""
    sizes, slowest = [], 0.0
    while writer.is_alive():
        started = time.monotonic()
        assert len(get(page, "/api/runs")["runs"]) == RUNS
        slowest = max(slowest, time.monotonic() - started)
        sizes.append((resident_mb(page.pid), resident_mb(follower.pid)))
        time.sleep(1.0)
    writer.join()
    return sizes, slowest


def _caught_up(page: Process, steps: int) -> float:
    """Wait until the last step of every run is shown; return the seconds that it took."""
    begin = time.monotonic()
    shown: set[int | None] = set()
    while time.monotonic() - begin < CATCH_UP:
        shown = {r["last_step"] for r in get(page, "/api/runs")["runs"]}
        if shown == {steps}:
            return time.monotonic() - begin
        time.sleep(2.0)
    raise AssertionError(f"last steps shown: {sorted(s or 0 for s in shown)}; written: {steps}")


def _all_there(page: Process, folder: Path, steps: int) -> None:
    """Each step is shown once, and every rollout is counted; what share of the text was read is told."""
    place = f"/api/runs/{id_of(folder)}"
    end = time.monotonic() + CATCH_UP / 4
    while True:  # the rollouts of the last step come after its row
        notes = get(page, place)["diagnosis"]["run"]["source"]["reader_notes"]
        notes = [n for n in notes if " rollouts from " in n["text"]]
        if (notes and notes[0]["count"] == ROLLOUTS * steps) or time.monotonic() > end:
            break
        time.sleep(0.5)
    (note,) = notes
    assert note["count"] == ROLLOUTS * steps
    print(note["text"])
    line = get(page, f"{place}/series?points=4000&panels=reward")["panels"]["reward"]["lines"][0]
    assert line["x"] == list(range(1, steps + 1))
