"""Tasks of reasoning-gym: generated puzzles, scored by the package's own functions in a worker process."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from rlvitals.env import Item, Message, Step, StopReason, VerifierStatus
from rlvitals.errors import InputError, Problem
from rlvitals.grpo.rewards.extract import READERS
from rlvitals.grpo.tasks.base import Task, identity
from rlvitals.grpo.tasks.options import MAX_ITEMS, MAX_TOKENS, Kind, Option, Options
from rlvitals.grpo.workerpool import Workers

SCORER = "rlvitals.grpo.tasks.gym:score"
SECONDS = 10.0  # of one scoring, making the puzzle again included
RIGHT = 1.0  # the package's score of a right answer; lower ones are partial credit
SYSTEM = "Think first. Write the final answer between <answer> and </answer>, in the form that the question asks for."

MAX_EVALUATED_CHARS = 1_000  # convention: the longest right answers of these puzzles have about 200
WORDS = r"(?:x|y|z|C|sin|cos|tan|exp|log|sqrt|asin|acos|atan|sinh|cosh|tanh|Abs|pi|E)"
FORMULA = rf"(?:[0-9+*/^()., -]|{WORDS}(?![A-Za-z_]))*"
EVALUATED: Mapping[str, re.Pattern[str]] = {
    "binary_matrix": re.compile(r"[-0-9\s,\[\]]*"),
    "countdown": re.compile(r"[0-9\s+*/().-]*"),
    "intermediate_integration": re.compile(FORMULA),
    "n_queens": re.compile(r"[Q_\s,\[\]'\"]*"),
    "polynomial_multiplication": re.compile(FORMULA),
    "puzzle24": re.compile(r"[0-9\s+*/().-]*"),
    "simple_integration": re.compile(FORMULA),
    "spiral_matrix": re.compile(r"[-0-9\s,\[\]]*"),
    "string_insertion": re.compile(r"[A-E\s,\[\]'\"]*"),
}
"""Puzzles whose scorer evaluates the answer as Python (reasoning-gym 0.1.25): what such an answer may consist of."""

OPTIONS: tuple[Option, ...] = (
    Option("name", "name of the puzzle, several joined by +", "basic_arithmetic", each="puzzle"),
    Option("size", "training items of each puzzle", "2000", Kind.WHOLE, 1, MAX_ITEMS),
    Option("held_out", "held-out items of each puzzle", "100", Kind.WHOLE, 0, MAX_ITEMS),
    Option(
        "read", "where the answer stands: tagged, boxed, last-number, hashes or whole", "tagged", choices=tuple(READERS)
    ),
    Option("settings", "settings of the puzzle as JSON, commas written as ;", "{}"),
    Option("max_tokens", "completion budget that right answers fit into, tokens", "512", Kind.WHOLE, 1, MAX_TOKENS),
)


def _package() -> Any:
    try:
        import reasoning_gym
    except ImportError:
        raise InputError(
            Problem("this task needs reasoning-gym", "task: gym", hint="pip install 'rlvitals[tasks]'")
        ) from None
    return reasoning_gym


@functools.lru_cache(maxsize=64)
def _dataset(name: str, size: int, seed: int, settings: str) -> Any:
    return _package().create_dataset(name, size=size, seed=seed, **json.loads(settings))


def score(answer: str, name: str, size: int, seed: int, settings: str, index: int) -> float:
    """Return the package's score, 0 to 1, of an answer to puzzle `index`; runs in the worker."""
    dataset = _dataset(name, size, seed, settings)
    return float(dataset.score_answer(answer=answer, entry=dataset[index]))


def harmless(name: str, answer: str) -> bool:
    """Say whether an answer can't name anything that Python would run in this puzzle's scorer."""
    pattern = EVALUATED.get(name)
    return pattern is None or (len(answer) <= MAX_EVALUATED_CHARS and pattern.fullmatch(answer) is not None)


class GymEnv:
    """One puzzle, one answer. The workers are shared by all environments of a task."""

    concurrent = True

    def __init__(self, version: str, read: str, workers: Workers) -> None:
        self.version = version
        self._read, self._workers = READERS[read], workers
        self._item: Item | None = None

    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        self._item = item
        return item.messages

    def step(self, text: str) -> Step:
        if self._item is None:
            raise RuntimeError("step before reset")
        answer = self._read(text)
        if answer is None or not harmless(self._item.family, answer):
            return Step(rewards={"correct": 0.0, "partial": 0.0}, status=VerifierStatus.NO_PARSE)
        said = self._workers.call(answer, *self._item.extra["entry"])  # type: ignore[misc]
        if not said.ok or not isinstance(said.value, int | float) or math.isnan(said.value):
            status = VerifierStatus.TIMEOUT if said.timed_out else VerifierStatus.ERROR
            nothing = {"correct": math.nan, "partial": math.nan}
            reason = None if said.timed_out else StopReason.ERROR
            return Step(rewards=nothing, raw=said.error or repr(said.value), status=status, reason=reason)
        right = said.value >= RIGHT
        status = VerifierStatus.RIGHT if right else VerifierStatus.WRONG
        rewards = {"correct": float(right), "partial": float(said.value)}
        return Step(rewards=rewards, raw=f"{said.value:g}: {answer}", status=status, parsed=answer)


def _settings(options: Options) -> str:
    text = options.text("settings").replace(";", ",")
    try:
        if isinstance(json.loads(text), dict):
            return text
    except ValueError:
        pass
    raise InputError(Problem("settings are no JSON object", "gym: settings", repr(text), '{"max_terms": 3}'))


def _items(name: str, size: int, seed: int, settings: str) -> list[Item]:
    try:
        dataset = _dataset(name, size, seed, settings)
        entries = [dataset[i] for i in range(size)]
    except InputError:
        raise
    except Exception as e:  # unknown names and settings fail in the package's own ways
        said = f"{type(e).__name__}: {e}"[:300]
        raise InputError(Problem("reasoning-gym can't make this puzzle", f"gym: {name}", said)) from e
    return [
        Item(
            id=f"{name}-{seed}-{i}",
            messages=(Message("system", SYSTEM), Message("user", str(entry["question"]))),
            gold=str(entry["answer"]),
            family=name,
            extra={"entry": (name, size, seed, settings, i)},
        )
        for i, entry in enumerate(entries)
    ]


def gym_task(options: Options) -> Task:
    """Return the task over the named puzzles; no held-out question is asked in training.

    InputError where the package is not installed, a puzzle is unknown or its settings are refused.
    """
    settings = _settings(options)
    names = options.words("name")
    train = [i for n in names for i in _items(n, options.whole("size"), 0, settings)]
    asked = {i.messages for i in train}
    held_out = [i for n in names for i in _items(n, options.whole("held_out"), 1, settings)]
    read = options.text("read")
    version = identity("gym", *names, settings, read, getattr(_package(), "__version__", ""), 1)
    workers = Workers(SCORER, seconds=SECONDS)
    return Task(
        name="gym",
        version=version,
        train=tuple(train),
        held_out=tuple(i for i in held_out if i.messages not in asked),
        new_env=lambda: GymEnv(version, read, workers),
        max_new_tokens=options.whole("max_tokens"),
        gives=("correct", "partial"),
    )
