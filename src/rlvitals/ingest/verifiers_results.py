"""Results of one verifiers evaluation: results.jsonl of `vf-eval` up to 0.1, traces.jsonl since; prime-rl's too.

A line is one rollout (legacy) or one episode of one or more agents. Failed rollouts are left out: an error is no score.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rlvitals.errors import InputError, NotATrainingRun, Problem

FILES = ("results.jsonl", "traces.jsonl")
MAX_FILES = 5_000  # result files below one folder (convention)
MAX_BYTES = 1_000_000_000  # of one file (convention); it is read line by line

_STEP_IN_NAME = re.compile(r"(?:checkpoint|global_step|step|iter(?:ation)?|ckpt)[-_=]?(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Score:
    """One evaluation: mean over examples, its standard error, number of examples; NaN error for a single example."""

    step: int
    mean: float
    stderr: float
    items: int
    zero_one: bool  # every reward was 0 or 1: an accuracy


@dataclass
class _Rollouts:
    rewards: dict[str, list[float]] = field(default_factory=dict)  # of each example
    step: int | None = None
    failed: int = 0

    def add(self, example: object, reward: float | None) -> None:
        if reward is None or not math.isfinite(reward):
            self.failed += 1
        else:
            self.rewards.setdefault(str(example), []).append(reward)


def is_result(row: Mapping[str, object]) -> bool:
    """True for a line of a results or traces file."""
    legacy = "example_id" in row and "completion" in row and "reward" in row
    return (legacy or ("traces" in row and "task" in row and "env" in row)) and "step" not in row


def refuse(name: str) -> NotATrainingRun:
    """Return the error for such a file where a training log was expected."""
    return NotATrainingRun(
        Problem(
            "these are the results of one verifiers evaluation, not the log of a training run",
            name,
            hint="Give them beside the run's log: rlvitals check RUN --evals NAME=FILE_OR_FOLDER",
        )
    )


def find(path: Path) -> list[Path]:
    """Return the result files at or below a path."""
    if path.is_file():
        return [path] if path.name in FILES else []
    found = [file for name in FILES for file in path.rglob(name) if file.is_file()]
    evals = [file for file in found if "eval" in file.parts] if any("train" in f.parts for f in found) else found
    return sorted(f for f in evals if "effective" not in f.parts)[:MAX_FILES]


def scores(name: str, files: list[Path]) -> list[Score]:
    """Return one score per file, of the environment called `name` where a file holds several. Raises InputError."""
    out: list[Score] = []
    problems: list[Problem] = []
    for file in files:
        found = _read(name, file)
        step = found.step if found.step is not None else _step_of(file)
        if step is None:
            expected = "a model or folder named like checkpoint-500"
            problems.append(Problem("No training step in the name", str(file), expected=expected))
        elif not found.rewards:
            what = f"{found.failed} failed rollouts" if found.failed else "no rollout"
            problems.append(Problem("No scored rollout in the results", str(file), what))
        else:
            out.append(_score(step, found))
    if problems:
        raise InputError(*problems[:20])
    return out


def _score(step: int, found: _Rollouts) -> Score:
    means = [statistics.fmean(rewards) for rewards in found.rewards.values()]
    stderr = statistics.stdev(means) / math.sqrt(len(means)) if len(means) > 1 else math.nan
    zero_one = all(reward in (0.0, 1.0) for rewards in found.rewards.values() for reward in rewards)
    return Score(step, statistics.fmean(means), stderr, len(means), zero_one)


def _read(name: str, file: Path) -> _Rollouts:
    if file.stat().st_size > MAX_BYTES:
        size = f"{file.stat().st_size:,} bytes"
        raise InputError(Problem("Held-out file too large", str(file), size, f"at most {MAX_BYTES:,}"))
    by_env: dict[str, _Rollouts] = {}
    with file.open("rb") as stream:
        for line in stream:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):  # a half-written last line
                continue
            if isinstance(row, dict):
                env = _name(row.get("env")) or _name(row.get("task"))
                _add(by_env.setdefault(env, _Rollouts()), row)
    if name in by_env:
        return by_env[name]
    merged = _Rollouts()
    for env, part in by_env.items():
        merged.rewards.update({f"{env}/{example}": rewards for example, rewards in part.rewards.items()})
        merged.step = part.step if merged.step is None else merged.step
        merged.failed += part.failed
    return merged


def _add(out: _Rollouts, row: Mapping[str, object]) -> None:
    traces = row.get("traces")
    if not isinstance(traces, list):
        reward = row.get("reward")
        failed = row.get("error") is not None or not isinstance(reward, (int, float))
        out.add(row.get("example_id"), None if failed else float(reward))  # type: ignore[arg-type]
        return
    task, run = _mapping(row.get("task")), _mapping(row.get("run"))
    step = _mapping(run.get("work")).get("step")
    if isinstance(step, int) and not isinstance(step, bool):
        out.step = step
    example = task.get("hash") or task.get("key") or _mapping(row.get("group")).get("id")
    for trace in traces[:1]:  # the first agent's: the one that is trained
        out.add(example, _reward(_mapping(trace)) if row.get("ok", True) is True else None)


def _reward(trace: Mapping[str, object]) -> float | None:
    """Return the sum of score x weight; None for a trace with an error or without any score."""
    rewards = _mapping(trace.get("rewards"))
    if trace.get("errors") or not rewards:
        return None
    total = 0.0
    for value in rewards.values():
        part = _mapping(value)
        score, weight = part.get("score"), part.get("weight", 1.0)
        if not isinstance(score, (int, float)) or not isinstance(weight, (int, float)):
            return None
        total += float(score) * float(weight)
    return total


def _step_of(file: Path) -> int | None:
    """Return the step from a folder's name, else from the model's name in metadata.json or the folder above."""
    texts = [part.name for part in list(file.parents)[:5]]
    beside = file.parent / "metadata.json"
    if beside.is_file() and beside.stat().st_size < 1_000_000:
        with contextlib.suppress(ValueError, RecursionError):
            told = _mapping(json.loads(beside.read_text(encoding="utf-8", errors="replace")))
            texts.insert(0, str(told.get("model")))
    for text in texts:
        hits = _STEP_IN_NAME.findall(text)
        if hits:
            return int(hits[-1])
    return None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _name(value: object) -> str:
    """Return an environment's name: a text (legacy), or the name in a record."""
    if isinstance(value, str):
        return value
    return str(_mapping(value).get("name") or "")
