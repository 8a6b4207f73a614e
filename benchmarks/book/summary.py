"""What the seeds of every arm say together: intervals, contrasts, thinned curves; written as one small JSON file."""

from __future__ import annotations

import csv
import datetime
import gzip
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.book.arms import ARMS, SHARED, STEPS, STOPS, Arm
from benchmarks.book.pictures import PICTURES
from benchmarks.book.questions import QUESTIONS, Question
from benchmarks.book.reference_cost import FILE as REFERENCE
from benchmarks.book.runs import folder_of, results
from rlvitals.record.arms import arm_result, contrast

JSON = Path("benchmarks/results/chapter7.json")
LOGS = Path("examples/chapter7")
LAST = 10  # steps at the end of a run that are averaged
EVERY = 5  # steps that one point of a curve averages
SHOWN = 60  # characters of an answer that are kept per seed
DIGITS = 4  # significant digits that are kept
WHOLE = ("tracking", "no-clip", "stops-k1", "format")  # arms whose seed 0 ships with all that was logged

Result = Mapping[str, Any]


def evaluation(step: int) -> Callable[[Result], float]:
    """Return what reads the held-out accuracy after a step."""

    def read(result: Result) -> float:
        found = [r["eval/heldout"] for r in result["rows"] if r["step"] == step and "eval/heldout" in r]
        return float(found[-1]) if found else math.nan

    return read


def tail(metric: str) -> Callable[[Result], float]:
    """Return what averages a metric over the last steps of a run; NaN where one was not logged."""

    def read(result: Result) -> float:
        rows = [r for r in result["rows"] if "reward_mean" in r][-LAST:]
        return float(np.mean([r.get(metric, math.nan) for r in rows]))

    return read


SUMMARIES: Mapping[str, Callable[[Result], float]] = {
    "held-out at the start": evaluation(0),
    f"held-out after step {STOPS}": evaluation(STOPS),
    "held-out at the end": evaluation(STEPS),
    "best held-out": lambda r: max(x["eval/heldout"] for x in r["rows"] if "eval/heldout" in x),
    "reward at the end": tail("reward_mean"),
    "format at the end": tail("reward_part/format"),
    "entropy at the end": tail("entropy"),
    "length at the end": tail("length_mean"),
    "KL k1 at the end": tail("extra/kl_ref_k1"),
    "tied groups": lambda r: float(np.mean([x["zero_variance_frac"] for x in r["rows"] if "reward_mean" in x])),
    "largest loss": lambda r: max(abs(x["policy_loss"]) for x in r["rows"] if "reward_mean" in x),
    "smallest gradient norm": lambda r: min(x["grad_norm"] for x in r["rows"] if "reward_mean" in x),
    "CPU seconds": lambda r: float(r["cpu_seconds"]),
}
"""Name -> one number of a run."""


def write(work: Path, root: Path) -> None:
    """Write the summary and one log per arm; arms without any run are left out."""
    runs = {arm.name: results(work, arm) for arm in ARMS}
    there = {name: rs for name, rs in runs.items() if rs}
    found = {
        "about": about(there),
        "arms": {arm.name: of_arm(arm, there[arm.name]) for arm in ARMS if arm.name in there},
        "questions": [answer(q, there) for q in QUESTIONS if {q.a, q.b} <= set(there)],
    }
    if (work / REFERENCE).is_file():
        found["reference"] = json.loads((work / REFERENCE).read_text(encoding="utf-8"))
    (root / JSON).write_text(compact(short(found)), encoding="utf-8")
    (root / LOGS).mkdir(parents=True, exist_ok=True)
    for arm in ARMS:
        log = folder_of(work, arm, 0) / "metrics.csv"
        if log.is_file():
            (root / LOGS / f"{arm.name}.csv").write_text(thin_log(log), encoding="utf-8")
        if log.is_file() and arm.name in WHOLE:
            ship(log.parent, root / LOGS / arm.name)


def ship(run: Path, target: Path) -> None:
    """Copy the logs of a run: config as it is, the rest packed; the same run gives the same bytes."""
    target.mkdir(exist_ok=True)
    (target / "config.json").write_bytes((run / "config.json").read_bytes())
    for name in ("metrics.jsonl", "evals.jsonl"):
        packed = gzip.compress((run / name).read_bytes(), compresslevel=9, mtime=0)
        (target / f"{name}.gz").write_bytes(packed)


def about(runs: Mapping[str, Sequence[Result]]) -> dict[str, Any]:
    """Return what all runs share."""
    import torch
    import transformers

    return {
        "date": datetime.date.today().isoformat(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "shared": dict(SHARED),
        "runs": sum(len(r) for r in runs.values()),
        "cpu_seconds": sum(float(x["cpu_seconds"]) for r in runs.values() for x in r),
    }


def of_arm(arm: Arm, runs: Sequence[Result]) -> dict[str, Any]:
    """Return the numbers of one arm."""
    return {
        "recipe": arm.recipe,
        "command": arm.command(),
        "seeds": [r["seed"] for r in runs],
        "numbers": {name: summary(name, [read(r) for r in runs]) for name, read in SUMMARIES.items()},
        "held_out": {str(s): [evaluation(s)(r) for r in runs] for s in (0, 20, 40, 60)},
        "curves": {m: c for m in drawn(arm.name) if (c := curve(runs, m))},
        "ends": [last_answer(r) for r in runs],
        "answers": [c for c in runs[0]["completions"] if c["step"] in (0, STOPS, STEPS)],
    }


def drawn(name: str) -> list[str]:
    """Return the metrics of an arm that a picture shows; held-out accuracy stands apart."""
    return list(dict.fromkeys(m for p in PICTURES if name in p.arms for m in p.panels if m != "held_out"))


def last_answer(result: Result) -> str:
    """Return what the first held-out item was answered at the end of a run, cut short."""
    return str(next(c for c in result["completions"] if c["step"] == STEPS)["completion"])[:SHOWN]


def summary(name: str, values: Sequence[float]) -> dict[str, Any]:
    """Return interquartile mean with its interval and every seed's value; null where it was not logged."""
    if not np.isfinite(values).all():
        return {"each": [v if math.isfinite(v) else None for v in values]}
    found = arm_result(name, np.array(values)[:, None]).iqm
    return {"iqm": found.value, "low": found.low, "high": found.high, "each": list(values)}


def curve(runs: Sequence[Result], metric: str) -> dict[str, list[float | None]] | None:
    """Return mean, lowest and highest seed of a metric, one point per `EVERY` steps; None where it is not logged."""
    series = [[r.get(metric, math.nan) for r in run["rows"] if "reward_mean" in r] for run in runs]
    if not series or all(math.isnan(v) for s in series for v in s):
        return None
    table = np.array([[_mean(s[i : i + EVERY]) for i in range(0, STEPS, EVERY)] for s in series])
    return {
        "step": [float(i + EVERY) for i in range(0, STEPS, EVERY)],
        "mean": [_mean(list(c)) for c in table.T],
        "low": [_ends(c, min) for c in table.T],
        "high": [_ends(c, max) for c in table.T],
    }


def _mean(values: Sequence[float]) -> float:
    kept = [v for v in values if math.isfinite(v)]
    return float(np.mean(kept)) if kept else math.nan


def _ends(values: Sequence[float], which: Callable[[list[float]], float]) -> float:
    kept = [float(v) for v in values if math.isfinite(v)]
    return which(kept) if kept else math.nan


def answer(question: Question, runs: Mapping[str, Sequence[Result]]) -> dict[str, Any]:
    """Return what the seeds say of one claim; a seed that both arms have, and no other, counts."""
    seeds = {r["seed"] for r in runs[question.a]} & {r["seed"] for r in runs[question.b]}
    read = SUMMARIES[question.number]
    scores = {
        name: np.array([[question.sign * read(r)] for r in runs[name] if r["seed"] in seeds])
        for name in (question.a, question.b)
    }
    found = contrast(question.a, question.b, scores)
    return {"section": question.section, "claim": question.claim, "number": question.number, "sign": question.sign,
            **asdict(found), "seeds": len(seeds)}  # fmt: skip


def short(value: Any) -> Any:
    """Return the value with numbers cut to `DIGITS` significant digits, None for what is not finite."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {k: short(v) for k, v in value.items()}
    return [short(v) for v in value] if isinstance(value, list | tuple) else value


def compact(value: object) -> str:
    """Return JSON with a line per entry and lists on one line."""
    text = json.dumps(value, indent=1)
    return re.sub(r"\[[^\[\]{}]*\]", lambda found: " ".join(found.group().split()), text) + "\n"


def thin_log(path: Path) -> str:
    """Return a CSV log with its numbers cut to four digits: all rows, a third of the bytes."""
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = list(csv.reader(file))
    cut = [[c if i < 2 or not c else f"{float(c):.{DIGITS}g}" for i, c in enumerate(row)] for row in rows]
    return "\n".join(",".join(row) for row in [head, *cut]) + "\n"
