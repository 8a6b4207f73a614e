"""Held-out scores kept elsewhere: CSV, JSON, JSONL with step and score, or a row per item; lm-eval, lighteval and
verifiers results.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlvitals.errors import InputError, Problem
from rlvitals.ingest import verifiers_results
from rlvitals.schema import Evals

MAX_BYTES = 100_000_000  # of one file (convention)
MAX_FILES = 5_000  # result files of one folder (convention)
PERCENT_MAX = 100.0  # by definition of a percentage

STEP_NAMES = ("step", "global_step", "training_step", "train_step", "checkpoint", "iteration", "batch")
SCORE_NAMES = ("score", "accuracy", "acc", "eval_acc", "value", "exact_match", "pass@1", "pass_at_1", "reward", "mean")
STDERR_NAMES = ("stderr", "se", "standard_error", "score_stderr", "acc_stderr")
ITEMS_NAMES = ("n", "items", "n_items", "total", "count", "samples")

# The headline metric of a task in lm-eval ("acc,none") and lighteval ("em") results, best first.
TASK_METRICS = (
    "exact_match", "acc", "pass@1", "pass_at_1", "extractive_match", "em", "qem", "acc_norm", "math_verify",
    "prompt_level_strict_acc", "f1", "score",
)  # fmt: skip
_STEP_IN_NAME = re.compile(r"(?:checkpoint|global_step|step|iter(?:ation)?|ckpt)[-_=]?(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Point:
    step: int
    score: float
    stderr: float = math.nan
    items: int = 0


def read_evals(name: str, path: Path) -> Evals:
    """Return one held-out set from a file or a folder of result files; percentages become fractions.

    Several scores of one step: the last one counts.

    Raises:
        InputError: no such path, an unknown format, no step or no score.
    """
    if not path.exists():
        raise InputError(Problem("No such held-out file", str(path), hint="Usage: --evals NAME=FILE"))
    results = verifiers_results.find(path)
    if results:
        points, key = _from_verifiers(name, results)
    elif path.is_dir():
        points, key = _from_folder(name, path)
    elif _kind(path) in (".csv", ".tsv"):
        points, key = _from_table(path)
    elif _kind(path) in (".jsonl", ".json", ".ndjson"):
        points, key = _from_json(name, path)
    else:
        expected = (
            ".csv, .tsv, .json, .jsonl, these packed as .gz, or a folder of lm-eval, lighteval or verifiers results"
        )
        raise InputError(Problem("Unknown format of held-out scores", str(path), path.suffix or "no suffix", expected))
    return _evals(name, path, points, key)


def _from_verifiers(name: str, files: list[Path]) -> tuple[list[_Point], str]:
    found = verifiers_results.scores(name, files)
    key = "accuracy" if all(score.zero_one for score in found) else "reward"
    return [_Point(score.step, score.mean, score.stderr, score.items) for score in found], key


def _evals(name: str, path: Path, points: list[_Point], key: str) -> Evals:
    last = {point.step: point for point in points}
    ordered = [last[step] for step in sorted(last)]
    scores = np.array([point.score for point in ordered], dtype=np.float64)
    errors = np.array([point.stderr for point in ordered], dtype=np.float64)
    reward = key.rpartition("/")[2] in ("reward", "mean_reward")
    if not reward and scores.size and 1.0 < scores.max() <= PERCENT_MAX and scores.min() >= 0.0:
        scores, errors = scores / PERCENT_MAX, errors / PERCENT_MAX
    items = max((point.items for point in ordered), default=0)
    if items and not reward:  # a mean of right and wrong answers: its binomial error
        spread = np.sqrt(np.clip(scores * (1.0 - scores), 0.0, None) / items)
        errors = np.where(np.isnan(errors), spread, errors)
    steps = np.array([point.step for point in ordered], dtype=np.int64)
    return Evals(name, steps, scores, errors, items, key, str(path), "reward" if reward else "accuracy")


def _kind(path: Path) -> str:
    """Return the suffix that says how a file is to be read, that of packing left out."""
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


def _text(path: Path) -> str:
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            found = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(Problem("The held-out file can't be read", str(path), str(error)[:120])) from error
    if len(found) > MAX_BYTES:
        raise InputError(Problem("Held-out file too large", str(path), expected=f"at most {MAX_BYTES:,} bytes"))
    return found.decode("utf-8-sig", "replace")


def _from_table(path: Path) -> tuple[list[_Point], str]:
    lines = _text(path).splitlines()
    rows = csv.DictReader(lines, delimiter="\t" if _kind(path) == ".tsv" else ",")
    return _from_rows(((i, row) for i, row in enumerate(rows, start=2)), tuple(rows.fieldnames or ()), path)


def _from_json(name: str, path: Path) -> tuple[list[_Point], str]:
    text = _text(path)
    if _kind(path) == ".json":
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(Problem("Not valid JSON", str(path), str(error)[:120])) from error
        if isinstance(value, dict) and isinstance(value.get("results"), dict):
            point, key = _result_point(name, path, value)
            return [point], key
        records = value if isinstance(value, list) else [value]
        rows = [(i, row) for i, row in enumerate(records, start=1) if isinstance(row, dict)]
    else:
        rows = list(_json_lines(text, path))
    keys = tuple(dict.fromkeys(key for _, row in rows for key in row))
    if {"step", "item"} <= set(keys) and not {"correct", "reward"}.isdisjoint(keys):
        return _from_items(name, [row for _, row in rows], path)
    return _from_rows(iter(rows), keys, path)


def _from_items(name: str, rows: list[dict[str, object]], path: Path) -> tuple[list[_Point], str]:
    """Take a row per item, as evals.jsonl and rescored.jsonl of our own trainer have it: a point is a step's mean.

    An item without a verdict is left out, as in the run; of several sets the one of that name counts.
    """
    sets = {row["set"] for row in rows if isinstance(row.get("set"), str)}
    if len(sets) > 1:
        if name not in sets:
            shown = ", ".join(sorted(map(str, sets)))[:200]
            hint = f"Name one: --evals SET={path}"
            raise InputError(Problem("Several sets in the held-out file", str(path), shown, hint=hint))
        rows = [row for row in rows if row.get("set") == name]
    key = "correct" if any(math.isfinite(_number(row.get("correct"))) for row in rows) else "reward"
    marks: dict[int, dict[str, float]] = {}
    for row in rows:
        step, mark = _number(row.get("step")), _number(row.get(key))
        if math.isfinite(step) and math.isfinite(mark):
            marks.setdefault(int(step), {})[str(row.get("item"))] = mark
    if not marks:
        raise InputError(Problem("No scores in the held-out file", str(path), "0 items", "at least one with a score"))
    return [_mean(step, list(found.values())) for step, found in sorted(marks.items())], key


def _mean(step: int, marks: list[float]) -> _Point:
    mean, spread = float(np.mean(marks)), float(np.std(marks))  # of right and wrong answers: the binomial error
    return _Point(step, mean, spread / math.sqrt(len(marks)), len(marks))


def _json_lines(text: str, path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):  # half-written: the evaluation is still running
                continue
            raise InputError(Problem("Not valid JSON", f"{path}, line {number}", line[:60])) from error
        if isinstance(row, dict):
            yield number, row


def _from_rows(
    rows: Iterator[tuple[int, Mapping[str, object]]], keys: tuple[str, ...], path: Path
) -> tuple[list[_Point], str]:
    lower = {key.strip().lower(): key for key in reversed(keys) if key}
    step_key, score_key, error_key, items_key = (
        next((lower[name] for name in names if name in lower), None)
        for names in (STEP_NAMES, SCORE_NAMES, STDERR_NAMES, ITEMS_NAMES)
    )
    columns = ", ".join(keys)[:200] or "nothing"
    missing = [
        Problem(f"No {what} in the held-out file", str(path), columns, f"one of {', '.join(names)}")
        for what, names, key in (("step", STEP_NAMES, step_key), ("score", SCORE_NAMES, score_key))
        if key is None
    ]
    if missing or step_key is None or score_key is None:
        raise InputError(*missing)
    points: list[_Point] = []
    problems: list[Problem] = []
    for line, row in rows:
        step, score = _number(row.get(step_key)), _number(row.get(score_key))
        if math.isnan(score) and not str(row.get(score_key) or "").strip():
            continue  # not evaluated in this row
        if math.isnan(score) or step != int(step if math.isfinite(step) else 0):
            found = f"{step_key}={row.get(step_key)!r}, {score_key}={row.get(score_key)!r}"
            problems.append(Problem("Not a step and a score", f"{path}, line {line}", found[:120], "two numbers"))
            continue
        items = _number(row.get(items_key)) if items_key else math.nan
        error = _number(row.get(error_key)) if error_key else math.nan
        points.append(_Point(int(step), score, error, int(items) if math.isfinite(items) else 0))
    if problems:
        raise InputError(*problems[:20])
    if not points:
        raise InputError(Problem("No scores in the held-out file", str(path), "0 rows", "at least one step and score"))
    return points, score_key


def _number(value: object) -> float:
    """Return a finite number, NaN for anything else; "45%" is 0.45."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return math.nan
    try:
        text = value.strip() if isinstance(value, str) else value
        number = float(text[:-1]) / PERCENT_MAX if isinstance(text, str) and text.endswith("%") else float(text)
    except (ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def _from_folder(name: str, path: Path) -> tuple[list[_Point], str]:
    """Read every results*.json below a folder; the step stands in the file's or a folder's name."""
    files = sorted(file for file in path.rglob("results*.json") if file.is_file())[:MAX_FILES]
    if not files:
        expected = "results_*.json files of lm-eval or lighteval"
        raise InputError(Problem("No held-out results in the folder", str(path), expected=expected))
    points: list[_Point] = []
    problems: list[Problem] = []
    key = ""
    for file in files:  # names carry the date: later ones of a step win
        try:
            value = json.loads(_text(file))
            point, key = _result_point(name, file, value)
            points.append(point)
        except InputError as error:
            problems += error.problems
        except (ValueError, RecursionError) as error:
            problems.append(Problem("Not valid JSON", str(file), str(error)[:120]))
    if problems:
        raise InputError(*problems[:20])
    return points, key


def _result_point(name: str, file: Path, value: object) -> tuple[_Point, str]:
    results = value.get("results") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(results, dict) or not results:
        raise InputError(Problem("No results in the file", str(file), expected='{"results": {task: {metric: score}}}'))
    task = _task(name, file, results)
    step = _step_of(file, value)
    scores = results[task]
    for metric in TASK_METRICS:
        for key, raw in scores.items():
            head, comma, tail = key.partition(",")
            if head.partition(":")[0] != metric or math.isnan(_number(raw)):
                continue
            error = _number(scores.get(f"{head}_stderr{comma}{tail}"))
            return _Point(step, _number(raw), error, _items(value, task)), f"{task}/{key}"
    found = ", ".join(map(str, scores))[:200]
    raise InputError(Problem("No known metric in the results", f"{file}: {task}", found, ", ".join(TASK_METRICS)))


def _task(name: str, file: Path, results: Mapping[str, object]) -> str:
    """Return the task meant: the only one, or the one that the set is named after."""
    tasks = {task: row for task, row in results.items() if isinstance(row, dict)}
    bare = {task: task.split("|")[1] if task.count("|") >= 2 else task for task in tasks}  # lighteval: suite|task|n
    for task, short in bare.items():
        if name.lower() in (task.lower(), short.lower()):
            return task
    single = [task for task in tasks if task != "all"]
    if len(single) == 1:
        return single[0]
    near = [task for task in single if name.lower() in task.lower()]
    if len(near) == 1:
        return near[0]
    found = ", ".join(map(str, single))[:200]
    raise InputError(Problem("Several tasks in the results", str(file), found, f"name one: --evals TASK={file.parent}"))


def _step_of(file: Path, value: Mapping[str, object]) -> int:
    """Return the training step: from the file's or a folder's name, nearest first, else from the model's name."""
    config, general = value.get("config"), value.get("config_general")
    names = [file.name, *(part.name for part in list(file.parents)[:4]), str(value.get("model_name", ""))]
    names += [
        str(part.get(key, ""))
        for part in (config, general)
        if isinstance(part, dict)
        for key in ("model_args", "model_name")
    ]
    for text in names:
        hits = _STEP_IN_NAME.findall(text)
        if hits:
            return int(hits[-1])
    raise InputError(
        Problem("No training step in the name", str(file), expected="a folder or file named like checkpoint-500")
    )


def _items(value: Mapping[str, object], task: str) -> int:
    counts = value.get("n-samples")
    row = counts.get(task) if isinstance(counts, dict) else None
    number = row.get("effective") if isinstance(row, dict) else None
    return number if isinstance(number, int) else 0
