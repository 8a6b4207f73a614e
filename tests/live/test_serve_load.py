"""Twenty growing runs with rollouts against one page: everything logged is shown, memory stays flat."""

from __future__ import annotations

import json
import os
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import trl_rows
from tests.live.site import id_of, rollout_rows, server

pytestmark = pytest.mark.slow
RUNS = 20
SECONDS = float(os.environ.get("RLVITALS_LOAD_SECONDS", "15"))
STEPS_PER_SECOND = 10
MAX_GROWTH_MB = 200  # over the second half


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def write(folders: list[Path], until: float, written: dict[str, int]) -> None:
    """Append 10 steps a second to each run: one row, and the 64 rollouts of the step."""
    rows = trl_rows(2000)
    dump = [json.dumps(r) for r in rollout_rows(1, 8, 8)]
    step = 0
    while time.monotonic() < until and step < len(rows):
        started = time.monotonic()
        step += 1
        for folder in folders:
            with (folder / "log.jsonl").open("a") as file:
                file.write(json.dumps(rows[step - 1]) + "\n")
            with (folder / "rollouts" / "all.jsonl").open("a") as file:
                file.write("".join(line.replace('"step": 1', f'"step": {step}') + "\n" for line in dump))
            written[folder.name] = step
        time.sleep(max(0.0, 1 / STEPS_PER_SECOND - (time.monotonic() - started)))


def get(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return json.loads(answer.read())


@pytest.mark.timeout(600)
def test_nothing_logged_is_lost_and_memory_stays_flat(tmp_path: Path) -> None:
    folders = [tmp_path / f"run-{n:02}" for n in range(RUNS)]
    for folder in folders:
        (folder / "rollouts").mkdir(parents=True)
        (folder / "log.jsonl").touch()
    written: dict[str, int] = {}
    writer = threading.Thread(target=write, args=(folders, time.monotonic() + SECONDS, written))
    with server(tmp_path, seconds=5) as site:
        writer.start()
        sizes, slowest = [resident_mb()], 0.0
        while writer.is_alive():
            started = time.monotonic()
            assert len(get(f"{site}/api/runs")["runs"]) == RUNS
            slowest = max(slowest, time.monotonic() - started)
            sizes.append(resident_mb())
            time.sleep(0.5)
        end = time.monotonic() + 300
        while time.monotonic() < end:
            shown = {r["name"]: r["last_step"] for r in get(f"{site}/api/runs")["runs"]}
            if shown == written:
                break
            time.sleep(0.5)
        assert shown == written
        for folder in (folders[0], folders[-1]):  # each step once, with its value
            line = get(f"{site}/api/runs/{id_of(folder)}/series?points=4000&panels=reward")["panels"]["reward"][
                "lines"
            ][0]
            assert line["x"] == list(range(1, written[folder.name] + 1))
    print(f"{sum(written.values())} steps, slowest answer {slowest:.2f} s, memory {sizes[0]:.0f} to {sizes[-1]:.0f} MB")
    assert sizes[-1] - sizes[len(sizes) // 2] < MAX_GROWTH_MB
