"""Error rates behind second signals and sampler gap ramps, and levels of labelled runs.

    python -m benchmarks.drift_limits [RUNS]             # "Second signals", "Sampler gap ramp"
    python -m benchmarks.drift_limits --levels CORPUS    # KL, loss and length of labelled runs

The tables stand in docs/measurements.md.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.fault_series import PHIS, answer, coloured, found, scores
from benchmarks.reward_limits import learning
from rlvitals.check import Check, Clear, Needs, Outcome
from rlvitals.checks import companions, course, sync_gap_ramp
from rlvitals.checks.scale import reward_scale
from rlvitals.errors import InputError
from rlvitals.ingest import load
from rlvitals.schema import Float64, Run
from rlvitals.view import View

SEED = 20261129
ROWS = 400
RAMP = sync_gap_ramp.CHECK
WIDTHS = (course.START_ROWS, companions.WIDE)


def drops(reward: Float64) -> dict[tuple[int, float], int]:
    """Return the first row at which a reward is `z` standard errors and a tenth of its range below its best stretch."""
    first: dict[tuple[int, float], int] = {}

    def judge(view: View, _: object) -> Outcome:
        span = reward_scale(view).span
        for width in WIDTHS:
            seen = course.decline(view, "reward_mean", width)
            for z in (2.5, 3.3, 4.0, 5.0):
                if seen.z >= z and seen.drop >= companions.REWARD_DROP_SHARE.value * span:
                    first.setdefault((width, z), view.rows)
        return Clear("probe")

    probe: Check = replace(RAMP, judge=judge, thresholds=(), fold=None, needs=Needs(all_of=("reward_mean",), rows=30))
    answer(probe, {"reward_mean": reward})
    return first


def second_signals(runs: int) -> None:
    """Print how often the reward counts as fallen: on healthy runs, and on falls of 15, 30 and 60% of the level."""
    print("second signals, share of runs (before onset, median delay): rows compared, z: healthy | -15% | -30% | -60%")
    table: dict[tuple[int, float], list[str]] = {}
    for left in (1.0, 0.85, 0.7, 0.4):
        rng = np.random.default_rng([SEED, int(100 * left)])
        seen = []
        for _ in range(runs):
            onset, rate = int(rng.integers(150, 280)), learning(rng, ROWS)
            fall = 1 - (1 - left) * np.clip((np.arange(ROWS) - onset) / int(rng.choice([1, 20, 60])), 0, 1)
            seen.append((onset, drops(scores(rng, rate * fall))))
        for key in [(width, z) for width in WIDTHS for z in (2.5, 3.3, 4.0, 5.0)]:
            delays = [first[key] - onset for onset, first in seen if key in first]
            text = f"{len(delays) / runs:.3f}"
            if left < 1:
                early = sum(d < 0 for d in delays) / runs
                text += f" ({early:.3f}, {np.median(delays) if delays else float('nan'):.0f})"
            table.setdefault(key, []).append(text)
    for (width, z), cells in table.items():
        print(f"  {width}, {z}: " + " | ".join(cells))


def gap(rng: np.random.Generator, course_name: str, times: float) -> tuple[int, Float64]:
    """Return (onset row, float64[ROWS] mean absolute log-probability gap): level, creep, step or ramp up to `times`."""
    t, onset = np.arange(ROWS), int(rng.integers(20, 150))
    begun = np.clip((t - onset) / (ROWS - onset), 0, 1)
    shape = {
        "level": np.zeros(ROWS),
        "creep": np.sqrt(t / ROWS),
        "step": (t >= onset).astype(float),
        "ramp": begun,
    }[course_name]
    noise = np.exp(float(rng.uniform(0.05, 0.3)) * coloured(rng, ROWS, float(rng.choice(PHIS))))
    return onset, np.asarray(
        float(np.exp(rng.uniform(np.log(0.007), np.log(0.03)))) * (1 + (times - 1) * shape) * noise
    )


def ramps(runs: int) -> None:
    """Print how often Y003 speaks of a ramp, and how often with an alarm, by the gap's true course."""
    print("sampler gap ramp: course, times: share raised (before onset, median delay) | share alarmed (same)")
    for name, times in (
        ("level", 1.0), ("creep", 3.0), ("step", 8.0), ("ramp", 3.0), ("ramp", 8.0), ("ramp", 20.0),
    ):  # fmt: skip
        cells = []
        rng = np.random.default_rng([SEED, int(times), len(name)])
        made = [gap(rng, name, times) for _ in range(runs)]
        answers = [(onset, answer(RAMP, {"logprob_gap_mean": y})) for onset, y in made]
        for alarms in (False, True):
            share, early, delay = found(answers, alarms=alarms)
            cells.append(f"{share:.3f}" + (f" ({early:.3f}, {delay:.0f})" if name == "ramp" else ""))
        print(f"  {name}, {times:g}: " + " | ".join(cells))
    for z, factor in ((2.0, 5.0), (2.6, 3.0), (2.6, 5.0), (3.3, 5.0)):
        limits = {"Y003.ramp_z": z, "Y003.factor": factor}
        cells = []
        for name, times in (("step", 8.0), ("ramp", 8.0)):
            rng = np.random.default_rng([SEED, int(times), len(name)])
            made = [gap(rng, name, times) for _ in range(runs)]
            share = found([(onset, answer(RAMP, {"logprob_gap_mean": y}, limits)) for onset, y in made])[0]
            cells.append(f"{name} {share:.3f}")
        print(f"  z {z}, factor {factor}: alarmed on " + ", ".join(cells))


def levels(corpus: Path) -> None:
    """Print, per label, settled KL and length against the start of every run, and the runs with exploding losses."""
    settled: dict[str, list[float]] = {}
    lengths: dict[str, list[float]] = {}
    with (corpus / "LABELS.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        try:
            run = load(corpus / "runs" / row["file"])
        except InputError:
            continue
        values = logged(run, "kl_ref")
        if values.size >= 20 and (values > 0).mean() > 0.5:
            what = "alarm, KL named" if "kl_" in row["labels"] else row["expected"]
            settled.setdefault(what, []).append(float(np.median(values[-9:])))
        values = logged(run, "length_mean")
        if values.size >= 30:
            ratio = float(np.median(values[-10:])) / max(float(values[:5].mean()), 1e-9)
            lengths.setdefault(row["expected"], []).append(ratio)
        size = np.abs(logged(run, "policy_loss" if "policy_loss" in run.columns else "loss"))
        if size.size >= 30 and (size > 0).any():
            hit = (size > 50 * np.median(size[size > 0])) & (size > 2)
            if hit.any():
                windows = np.lib.stride_tricks.sliding_window_view(hit, min(100, hit.size)).sum(axis=1)
                print(
                    f"loss: {row['expected']}, {row['labels']}: {int(windows.max())} of 100 rows, max {size.max():.3g}"
                )
    for title, table in (("KL", settled), ("length", lengths)):
        for what, seen in sorted(table.items()):
            print(f"{title}, {what}: {len(seen)} runs, " + ", ".join(f"{v:.3g}" for v in sorted(seen)))


def logged(run: Run, metric: str) -> Float64:
    """Return the finite values of a metric; empty when there are none."""
    values = run.columns.get(metric, np.zeros(0))
    return values[np.isfinite(values)]


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--levels"]:
        levels(Path(arguments[1]))
        return
    runs = int(arguments[0]) if arguments else 200
    second_signals(runs)
    ramps(runs)


if __name__ == "__main__":
    main(sys.argv[1:])
