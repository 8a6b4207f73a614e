"""The live monitor's cost: python benchmarks/live.py [STEPS [SETTING ...]]. Each setting runs in a process of its own.

For 100,000 steps of 40 metrics: milliseconds per step, amortised and at worst, of the processor and by the clock (the
latter says more of what else the machine is doing than of the monitor), and resident memory at each quarter; in
memory, with files, with a diagnosis asked for at every 100th step, with every row logged in two calls around a
diagnosis, and with steps that go back now and then. Then rollouts: 64 of 1,000 characters per step. Then `--follow`:
milliseconds per poll that finds one new line, early and late in a log of that length.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson

RESULTS = Path(__file__).parent / "results" / "live.json"
STEPS = 100_000
ROLLOUT_STEPS = 500
SETTINGS = (
    "memory",
    "files",
    "diagnosis every 100 steps",
    "two calls and a diagnosis",
    "going back",
    "rollouts",
    "follow",
)
NAMES = (
    "reward", "entropy", "kl", "grad_norm", "loss", "frac_reward_zero_std", "learning_rate",
    *(f"rewards/part{i}/mean" for i in range(33)),
)  # fmt: skip


def resident_mb() -> float:
    """Return the resident memory of this process now."""
    line = next(t for t in Path("/proc/self/status").read_text().splitlines() if t.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def measured(steps: int, take: Callable[[int], None]) -> dict[str, object]:
    """Call `take` for each step; return its cost and the memory at each quarter."""
    spent = cpu = worst = 0.0
    memory: list[float] = []
    for step in range(1, steps + 1):
        begin, begin_cpu = time.perf_counter(), time.process_time()
        take(step)
        took, cpu = time.perf_counter() - begin, cpu + time.process_time() - begin_cpu
        spent, worst = spent + took, max(worst, took)
        if step % (steps // 4) == 0:
            memory.append(round(resident_mb(), 1))
    return {
        "steps": steps,
        "cpu_ms_per_step": round(1e3 * cpu / steps, 4),
        "ms_per_step": round(1e3 * spent / steps, 4),
        "worst_ms": round(1e3 * worst, 1),
        "MB_at_quarters": memory,
    }


def live(setting: str, steps: int, folder: Path) -> dict[str, object]:
    """Measure one setting of the monitor."""
    from rlvitals.live.monitor import Monitor

    rng = np.random.default_rng(0)
    table = np.abs(rng.normal(0.5, 0.05, (1_000, len(NAMES)))).tolist()
    monitor = Monitor(trainer="TRL", directory=folder if setting == "files" else None)

    def row(step: int) -> dict[str, float]:
        return dict(zip(NAMES, table[step % 1_000], strict=True))

    def take(step: int) -> None:
        if setting == "two calls and a diagnosis":
            found = row(step)
            monitor.log(step, {"reward": found.pop("reward")})
            if step % 10 == 0:
                monitor.diagnosis()
            monitor.log(step, found)
            return
        if setting == "going back" and step % (steps // 200) == 0:
            monitor.log(step - 6, row(step))
        monitor.log(step, row(step))
        if setting.startswith("diagnosis") and step % 100 == 0:
            monitor.diagnosis()

    out = measured(steps, take)
    out["troubles"] = [str(t) for t in monitor.troubles]
    if setting == "files":
        monitor.close()
        out["MB_on_disk"] = round(sum(p.stat().st_size for p in folder.iterdir()) / 2**20, 1)
        begin, begin_cpu = time.perf_counter(), time.process_time()
        Monitor(trainer="TRL", directory=folder).diagnosis()
        out["restart_s"] = round(time.perf_counter() - begin, 2)
        out["restart_cpu_s"] = round(time.process_time() - begin_cpu, 2)
    return out


def rollouts(steps: int) -> dict[str, object]:
    """Measure 64 rollouts of 1,000 characters per step, in groups of 8."""
    from rlvitals.live.monitor import Monitor

    rng = np.random.default_rng(0)
    words = ["alpha", "beta", "gamma", "delta", "sum", "so", "then", "42", "equals", "answer"]
    texts = [" ".join(rng.choice(words, 180))[:1_000] for _ in range(512)]
    monitor = Monitor(trainer="TRL")

    def take(step: int) -> None:
        rows = [
            {
                "group": str(i // 8), "index": i % 8, "reward": float((i * step) % 3 == 0), "tokens": 200 + i,
                "completion": texts[(i * 7 + step) % 512], "prompt": "a question", "stop_reason": "eos",
            }
            for i in range(64)
        ]  # fmt: skip
        monitor.log(step, {"reward": 0.3})
        monitor.log_rollouts(step, rows)

    out = measured(steps, take)
    out["text_share"] = monitor.text_share
    return out


def follow(steps: int, folder: Path) -> dict[str, object]:
    """Measure a poll that finds one new line, in a log of 1,000 lines and of `steps` lines."""
    from rlvitals.live.follow import Follower

    rng = np.random.default_rng(0)
    table = np.abs(rng.normal(0.5, 0.05, (1_000, len(NAMES)))).tolist()
    out: dict[str, object] = {}
    for length in (1_000, steps):
        log = folder / f"{length}.jsonl"
        with log.open("wb") as file:
            for step in range(1, length + 1):
                file.write(orjson.dumps({"step": step, **dict(zip(NAMES, table[step % 1_000], strict=True))}) + b"\n")
        follower = Follower(log)
        begin = time.perf_counter()
        follower.poll()
        first = time.perf_counter() - begin
        spent = cpu = 0.0
        for step in range(length + 1, length + 1_001):
            with log.open("ab") as file:
                file.write(orjson.dumps({"step": step, **dict(zip(NAMES, table[step % 1_000], strict=True))}) + b"\n")
            follower._next_load = float("inf")  # the look for new files once a minute is another matter
            begin, begin_cpu = time.perf_counter(), time.process_time()
            follower.poll()
            spent, cpu = spent + time.perf_counter() - begin, cpu + time.process_time() - begin_cpu
        out[f"after {length} lines"] = {
            "first_poll_s": round(first, 2),
            "ms_per_poll": round(spent, 4),
            "cpu_ms_per_poll": round(cpu, 4),
        }
    return out


def child(setting: str, steps: int) -> None:
    """Measure one setting and print it."""
    with tempfile.TemporaryDirectory() as folder:
        if setting == "rollouts":
            found = rollouts(min(steps, ROLLOUT_STEPS))
        elif setting == "follow":
            found = follow(steps, Path(folder))
        else:
            found = live(setting, steps, Path(folder))
    print(orjson.dumps(found).decode())


def main() -> None:
    """Measure every setting, or those named, and write the results of a whole-length run."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    results = orjson.loads(RESULTS.read_bytes()) if RESULTS.exists() else {}
    for setting in sys.argv[2:] or SETTINGS:
        command = [sys.executable, __file__, "--child", setting, str(steps)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        results[setting] = orjson.loads(done.stdout.splitlines()[-1])
        print(setting, results[setting], flush=True)
    if steps == STEPS:
        RESULTS.write_bytes(orjson.dumps(results, option=orjson.OPT_INDENT_2) + b"\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]))
    else:
        main()
