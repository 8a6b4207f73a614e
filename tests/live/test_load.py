"""Many runs at once: twenty logs that grow by ten steps a second, followed by one process; every step is there."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from rlvitals.live.follow import Follower

RUNS, STEPS_PER_SECOND, SECONDS = 20, 10, 20


def resident_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def write(paths: list[Path]) -> None:
    """Append one line to each log, ten times a second; every third line in two writes."""
    begin = time.monotonic()
    for step in range(1, SECONDS * STEPS_PER_SECOND + 1):
        for path in paths:
            row = {"step": step, "reward": 0.3 + 0.01 * (step % 7), "entropy": 0.4, "grad_norm": 0.1, "loss": 0.01}
            line = json.dumps(row) + "\n"
            cut = len(line) // 2 if step % 3 == 0 else len(line)
            for piece in (line[:cut], line[cut:]):
                with path.open("a") as file:
                    file.write(piece)
        time.sleep(max(0.0, begin + step / STEPS_PER_SECOND - time.monotonic()))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to read the memory from")
def test_twenty_growing_runs_lose_no_step_and_memory_stays_flat(tmp_path: Path) -> None:
    paths = [tmp_path / f"run-{i}.jsonl" for i in range(RUNS)]
    followers = [Follower(path) for path in paths]
    writer = threading.Thread(target=write, args=(paths,))
    writer.start()
    half = 0.0
    begin = time.monotonic()
    while writer.is_alive():
        for follower in followers:
            follower.poll()
        if not half and time.monotonic() - begin > SECONDS / 2:
            half = resident_mb()
        time.sleep(0.2)
    for follower in followers:
        follower.poll()
        found = follower.diagnosis()
        assert found is not None
        assert (found.position.rows, found.position.last_step) == (SECONDS * STEPS_PER_SECOND,) * 2
        assert follower.troubles == ()
        assert follower.how == "read on line by line (jsonl)"
    assert resident_mb() < half + 40
