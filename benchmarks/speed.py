"""Speed and memory: python benchmarks/speed.py [STEPS ...]. Each size runs in a process of its own.

For each number of steps: time to load and examine a JSONL log of 40 metrics, and peak memory; then the live monitor's
cost per step and `rlvitals --help`.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import orjson

RESULTS = Path(__file__).parent / "results" / "speed.json"
LIVE_STEPS = 100_000


def peak_mb() -> float:
    """Return the peak resident memory of this process; ru_maxrss alone would include the parent's before exec."""
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(text for text in status.read_text().splitlines() if text.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write_log(path: Path, steps: int) -> None:
    """Write a TRL-like JSONL log of 40 metrics per step."""
    rng = np.random.default_rng(0)
    names = ["reward", "reward_std", "frac_reward_zero_std", "entropy", "kl", "grad_norm", "learning_rate", "loss",
             "completions/mean_length", "completions/clipped_ratio", "clip_ratio/region_mean", "step_time",
             "rewards/correct/mean", "rewards/format/mean", "num_tokens"]  # fmt: skip
    names += [f"rewards/part{i}/mean" for i in range(40 - len(names))]
    t = np.linspace(0, 1, steps)
    base = np.abs(rng.normal(0.5, 0.05, (steps, len(names))))
    base[:, 0] = 0.3 + 0.4 * t + rng.normal(0, 0.03, steps)
    base[:, 2] = np.clip(0.2 + 0.2 * t + rng.normal(0, 0.03, steps), 0, 1)
    base[:, 3] = 0.5 * np.exp(-t) * np.exp(rng.normal(0, 0.05, steps))
    base[:, 4] = 0.05 * np.sqrt(t) * np.exp(rng.normal(0, 0.2, steps))
    base[:, 9] = 0.01
    with path.open("wb") as file:
        for i, row in enumerate(base.tolist()):
            file.write(orjson.dumps({**dict(zip(names, row, strict=True)), "step": i + 1}) + b"\n")


def measure(path: str) -> dict[str, float]:
    """Load and examine one file; called in a process of its own."""
    from rlvitals.conclude import diagnose
    from rlvitals.ingest import load

    begin = time.perf_counter()
    run = load(Path(path))
    loaded = time.perf_counter()
    found = diagnose(run)
    done = time.perf_counter()
    peak = peak_mb()
    return {
        "rows": run.rows, "load_s": round(loaded - begin, 3), "examine_s": round(done - loaded, 3),
        "total_s": round(done - begin, 3), "peak_MB": round(peak, 1), "checks": len(found.outcomes),
    }  # fmt: skip


def live() -> dict[str, float]:
    """Feed the live monitor LIVE_STEPS rows of 40 metrics; report amortised cost and memory growth."""
    from rlvitals.live.monitor import Monitor

    rng = np.random.default_rng(0)
    names = ["reward", "entropy", "kl", "grad_norm", "loss", "frac_reward_zero_std", "learning_rate"]
    names += [f"rewards/part{i}/mean" for i in range(33)]
    monitor = Monitor(trainer="TRL")
    spent, quarter, at_quarter, worst = 0.0, 0.0, 0.0, 0.0
    for step in range(1, LIVE_STEPS + 1):
        row = dict(zip(names, rng.normal(0.5, 0.05, len(names)).tolist(), strict=True))
        begin = time.perf_counter()
        monitor.log(step, row)
        took = time.perf_counter() - begin
        spent, worst = spent + took, max(worst, took)
        if step == LIVE_STEPS // 4:
            quarter, at_quarter = spent, peak_mb()
    peak = peak_mb()
    return {
        "steps": LIVE_STEPS, "ms_per_step": round(1e3 * spent / LIVE_STEPS, 4),
        "ms_per_step_first_quarter": round(4e3 * quarter / LIVE_STEPS, 4), "worst_ms": round(1e3 * worst, 2),
        "MB_after_quarter": round(at_quarter, 1), "MB_at_end": round(peak, 1),
    }  # fmt: skip


def start_up() -> dict[str, float]:
    """Time `rlvitals --help` and the import of the monitor: the median of 7 whole processes."""
    out = {}
    for name, command in {
        "help_s": [sys.executable, "-m", "rlvitals", "--help"],
        "import_monitor_s": [sys.executable, "-c", "import rlvitals.live.monitor"],
        "bare_python_s": [sys.executable, "-c", "pass"],
    }.items():
        times = []
        for _ in range(7):
            begin = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            times.append(time.perf_counter() - begin)
        out[name] = round(sorted(times)[3], 3)
    return out


def child(code: str) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    result: dict[str, float] = orjson.loads(done.stdout.splitlines()[-1])
    return result


def main(sizes: list[int]) -> None:
    results: dict[str, object] = {"start_up": start_up()}
    print(results["start_up"])
    with tempfile.TemporaryDirectory() as folder:
        for steps in sizes:
            path = Path(folder) / f"{steps}.jsonl"
            write_log(path, steps)
            code = "import orjson; from benchmarks.speed import measure; "
            code += f"print(orjson.dumps(measure({str(path)!r})).decode())"
            results[f"{steps} steps x 40 metrics"] = child(code)
            print(steps, results[f"{steps} steps x 40 metrics"])
            path.unlink()
    results["live"] = child("import orjson; from benchmarks.speed import live; print(orjson.dumps(live()).decode())")
    print("live", results["live"])
    RESULTS.write_bytes(orjson.dumps(results, option=orjson.OPT_INDENT_2))


if __name__ == "__main__":
    main([int(a) for a in sys.argv[1:]] or [10_000, 100_000, 1_000_000])
