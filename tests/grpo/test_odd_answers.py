"""Environments that answer oddly: each is an error in its trajectory, told in its raw output; the run goes on."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import torch

from rlvitals.env import Item, Message, Step, StopReason, VerifierStatus, fault_of
from rlvitals.grpo.judging import Failed, judge, started
from rlvitals.grpo.loop import train
from rlvitals.grpo.tasks.base import Task
from tests.grpo.loops import PARTS, config, items, one_thread, rows

RIGHT, ERROR = VerifierStatus.RIGHT, VerifierStatus.ERROR
Answer = Callable[[str], Any]
GIVEN: Any = {"correct": 1.0}


def raises(error: BaseException) -> Answer:
    def answer(text: str) -> Any:
        raise error

    return answer


ODD: list[tuple[Answer, str]] = [
    (lambda t: None, "step returned None (NoneType), not a Step"),
    (lambda t: (1.0, True), "not a Step"),
    (lambda t: Step((), None, t, RIGHT), "rewards are None"),  # type: ignore[arg-type]
    (lambda t: Step((), {"correct": None}, t, RIGHT), "reward 'correct' (str) is None"),  # type: ignore[dict-item]
    (lambda t: Step((), {"correct": "yes"}, t, RIGHT), "is 'yes' (str), not a number"),  # type: ignore[dict-item]
    (lambda t: Step((), {"correct": math.nan}, t, RIGHT), "is nan, not a finite number"),
    (lambda t: Step((), {"correct": math.inf}, t, RIGHT), "is inf, not a finite number"),
    (lambda t: Step((), {"correct": math.nan}, t), "is nan, not a finite number"),
    (lambda t: Step((), {"correct": torch.zeros(2)}, t, RIGHT), "Error"),  # type: ignore[dict-item]
    (lambda t: Step((), GIVEN, t, "right"), "status is 'right' (str), not a VerifierStatus"),  # type: ignore[arg-type]
    (lambda t: Step((), GIVEN, t, RIGHT, reason="done"), "reason is 'done'"),  # type: ignore[arg-type]
    (lambda t: Step((), GIVEN, 7, RIGHT), "raw is 7 (int), not text"),  # type: ignore[arg-type]
    (lambda t: Step((), GIVEN, "\ud800", RIGHT), "raw is '\\ud800'"),
    (lambda t: Step((), GIVEN, t, RIGHT, parsed=7), "parsed is 7"),  # type: ignore[arg-type]
    (lambda t: Step("again", GIVEN, t, RIGHT, done=False), "messages are 'again' (str)"),  # type: ignore[arg-type]
    (lambda t: Step(("again",), GIVEN, t, RIGHT, done=False), "a message is 'again'"),  # type: ignore[arg-type]
    (lambda t: Step((Message("tool", "\udfff"),), GIVEN, t, done=False), "role and content are text"),
    (lambda t: sys.exit(3), "SystemExit: 3"),
    (raises(ValueError("\ud800")), "ValueError: \\ud800"),
    (raises(BaseException("odd")), "BaseException: odd"),
]


def env(answer: Answer, concurrent: bool) -> Any:
    class Odd:
        version = "odd@1"

        def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
            return item.messages

        def step(self, text: str) -> Any:
            return answer(text)

    Odd.concurrent = concurrent  # type: ignore[attr-defined]
    return Odd


@pytest.mark.parametrize("concurrent", [False, True])
@pytest.mark.parametrize(("answer", "said"), ODD)
def test_an_odd_answer_is_an_error_that_says_what_it_was(answer: Answer, said: str, concurrent: bool) -> None:
    judged = judge([env(answer, concurrent)() for _ in range(2)], ["7", "8"])
    for step, seconds in judged:
        assert (step.status, step.reason, step.done, step.messages) == (ERROR, StopReason.ERROR, True, ())
        assert said in step.raw
        step.raw.encode()
        assert seconds >= 0


def test_whole_answers_pass_as_they_are() -> None:
    for value in (1, 0.5, True, np.float32(0.25), np.int64(1), torch.tensor(1.0)):
        assert fault_of(Step((), {"correct": value}, "7", RIGHT)) == ""  # type: ignore[dict-item]
    assert fault_of(Step((), {"correct": math.nan}, "", ERROR)) == ""  # no verdict, so no reward
    assert fault_of(Step((Message("tool", "5"),), {}, done=False)) == ""


def test_a_run_goes_on_over_odd_answers_and_counts_each(tmp_path: Path) -> None:
    one_thread()
    turn = iter(range(10**6))

    def answer(text: str) -> Any:
        return ODD[next(turn) % len(ODD)][0](text) if "7" in text else Step((), {"correct": 0.0}, text, RIGHT)

    def task(_: Any, __: Any) -> Task:
        return Task("odd", "v", items(0, 24), items(100, 8), env(answer, False), max_turns=2, max_new_tokens=6)

    train(config(steps=2), replace(PARTS, task=task), folder=tmp_path)
    played = (
        duckdb.connect()
        .execute(f"select completion, verifier_status, reward, raw_output from '{tmp_path}/rollouts/*.parquet'")
        .fetchall()
    )
    for text, status, reward, raw in played:
        assert (status, reward) == (("error", None) if "7" in text else ("right", 0.0)), raw
    shares = [row["verifier_error_frac"] for row in rows(tmp_path) if "verifier_error_frac" in row]
    assert np.mean(shares) == pytest.approx(np.mean([status == "error" for _, status, _, _ in played]))


class Silent:
    """A verdict without the part that the plan pays for."""

    version = "silent@1"

    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        return item.messages

    def step(self, text: str) -> Step:
        return Step((), {"other": 1.0}, text, RIGHT)


class NoStart(Silent):
    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        raise SystemExit("no state")


class OddStart(Silent):
    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        return "again"  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Silent, "the environment gave no finite reward: correct"),
        (NoStart, "reset: SystemExit: no state"),
        (OddStart, "a message is 'a' (str), not a Message"),
    ],
)
def test_no_reward_and_no_start_are_errors(kind: Any, said: str, tmp_path: Path) -> None:
    one_thread()

    def task(_: Any, __: Any) -> Task:
        return Task("odd", "v", items(0, 24), items(100, 8), kind, max_new_tokens=6)

    train(config(steps=1), replace(PARTS, task=task, held_out=task), folder=tmp_path)
    raws = (
        duckdb.connect()
        .execute(f"select distinct raw_output, verifier_status from '{tmp_path}/rollouts/*.parquet'")
        .fetchall()
    )
    assert raws == [(said, "error")]
    row = rows(tmp_path)[-1]
    assert row["verifier_error_frac"] == 1.0
    assert "success_frac" not in row
    assert "reward_mean" not in row
    assert {json.loads(line)["correct"] for line in (tmp_path / "evals.jsonl").open()} == {None}


def no_database() -> Any:
    raise OSError("no database")


def test_an_environment_that_cannot_be_made_is_an_error_too() -> None:
    item = items(0, 1)[0]
    made, messages = started(no_database, item, 0)
    assert isinstance(made, Failed)
    assert messages == item.messages
    assert judge([made], ["7"])[0][0].raw == "reset: OSError: no database"
    with pytest.raises(KeyboardInterrupt):
        judge([env(raises(KeyboardInterrupt()), False)()], ["7"])
