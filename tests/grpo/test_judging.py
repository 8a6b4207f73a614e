"""Verdicts of one turn: a few at a time in the rollouts' order, and a signal does not wait for all of them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlvitals.env import Env, Item, Message, Step, VerifierStatus
from rlvitals.grpo import checkpoint, interrupt, workerpool
from rlvitals.grpo.evaluate import HeldOut
from rlvitals.grpo.judging import judge
from rlvitals.grpo.loop import train
from rlvitals.grpo.run import Run
from rlvitals.grpo.tasks.base import Task
from rlvitals.grpo.workerpool import Workers, workers_here
from tests.grpo.loops import PARTS, HasSeven, config, one_thread, rows, sevens

ACT = "tests.worker_targets:act"
TIMEOUT = VerifierStatus.TIMEOUT


class Asking:
    """Asks workers to do what the text names."""

    version = "asking@1"
    concurrent = True

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        return item.messages

    def step(self, text: str) -> Step:
        if text == "broken":
            raise ValueError("no such text")
        answer = self._workers.call(text)
        status = TIMEOUT if answer.timed_out else VerifierStatus.RIGHT if answer.ok else VerifierStatus.ERROR
        return Step(raw=str(answer.value), status=status)


def test_answers_come_in_their_order_and_a_hanging_one_holds_up_its_own_worker() -> None:
    workers = Workers(ACT, seconds=1.0, count=2)
    workers.start()
    texts = ["sleep", "a", "b", "broken", "c", "sleep", "d"]
    env: Env = Asking(workers)
    judged = judge([env] * len(texts), texts)
    kinds = [s.status.value for s, _ in judged if s.status is not None]
    assert kinds == ["timeout", "right", "right", "error", "right", "timeout", "right"]
    assert judged[3][0].raw == "ValueError: no such text"
    assert [round(s) for _, s in judged if _.status is TIMEOUT] == [1, 1]
    assert workers.restarts == 2
    workers.close()


def test_hanging_answers_are_waited_for_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlvitals.grpo.judging.workers_here", lambda: 4)
    workers = Workers(ACT, seconds=1.0, count=4)
    judge([Asking(workers)] * 4, ["x"] * 4)
    started = time.monotonic()
    judged = judge([Asking(workers)] * 4, ["sleep"] * 4)
    assert {s.status for s, _ in judged} == {TIMEOUT}
    assert time.monotonic() - started < 3.0  # 4 s one after the other
    workers.close()


def test_one_after_the_other_takes_one_worker() -> None:
    workers = Workers("tests.worker_targets:pid", count=3)
    assert len({workers.call().value for _ in range(5)}) == 1
    workers.close()


@pytest.mark.parametrize(("cpus", "processes", "count"), [(1, 1, 2), (3, 1, 3), (64, 1, 4), (64, 32, 2)])
def test_workers_are_two_to_four(cpus: int, processes: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workerpool.os, "sched_getaffinity", lambda _: set(range(cpus)), raising=False)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    assert workers_here() == count


class Ordered:
    """Keeps state over all of its kind, and does not say that it may be asked side by side."""

    version = "ordered@1"
    seen: list[str] = []  # noqa: RUF012 (shared on purpose)

    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        return item.messages

    def step(self, text: str) -> Step:
        assert threading.current_thread() is threading.main_thread()
        self.seen.append(text)
        return Step(raw=str(len(self.seen)))


def test_environments_that_do_not_allow_it_are_asked_in_turn() -> None:
    texts = [str(i) for i in range(20)]
    assert [s.raw for s, _ in judge([Ordered() for _ in texts], texts)] == [str(i + 1) for i in range(20)]
    assert Ordered.seen == texts


SLOW = {"train": False, "held out": False}


class Slow(HasSeven):
    """Takes its time once it is told to, and the run is then asked to stop."""

    concurrent = True

    def __init__(self, which: str) -> None:
        self._which = which

    def step(self, text: str) -> Step:
        if SLOW[self._which]:
            if threading.current_thread() is threading.main_thread() or not interrupt._active[-1].asked:
                os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.3)
        return super().step(text)


def slow(which: str) -> Any:
    def make(settings: Any, tokenizer: Any) -> Task:
        return replace(sevens(settings, tokenizer), new_env=lambda: Slow(which))

    return make


def slow_from(step: int, which: str) -> Any:
    def watch(run: Run, row: Mapping[str, float], held_out: HeldOut | None) -> None:
        SLOW[which] = run.step == step

    return watch


@pytest.fixture
def calm(monkeypatch: pytest.MonkeyPatch) -> Any:
    one_thread()
    monkeypatch.setattr(interrupt, "GRACE_S", 0.2)
    yield
    SLOW.update(dict.fromkeys(SLOW, False))


SLOWLY = replace(PARTS, task=slow("train"), held_out=slow("held out"))


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("after", [0, 2, 3])
def test_sigterm_leaves_out_the_step_whose_verdicts_are_missing_and_a_resume_makes_it(
    tmp_path: Path, after: int
) -> None:
    folder = tmp_path / "run"
    train(config(), SLOWLY, folder=tmp_path / "whole")
    SLOW["train"] = after == 0
    started = time.monotonic()
    outcome = train(config(), SLOWLY, folder=folder, watch=[slow_from(after, "train")])
    assert time.monotonic() - started < 20
    assert (outcome.steps, outcome.complete) == (after, False)
    assert outcome.reason.startswith("asked to stop (SIGTERM) while verdicts were missing")
    assert [r["step"] for r in rows(folder)] == list(range(after + 1))
    newest = checkpoint.newest(folder)
    assert (newest.step if newest is not None else 0) == after
    SLOW["train"] = False
    train(config(), SLOWLY, folder=folder, resume=True)
    assert rows(folder) == rows(tmp_path / "whole")
    last = "checkpoints/checkpoint-6/model.safetensors"
    assert (folder / last).read_bytes() == (tmp_path / "whole" / last).read_bytes()


@pytest.mark.usefixtures("calm")
def test_sigterm_in_an_evaluation_goes_back_to_the_newest_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(config(save_every=1), SLOWLY, folder=tmp_path / "whole")
    outcome = train(config(save_every=1), SLOWLY, folder=folder, watch=[slow_from(2, "held out")])
    assert (outcome.steps, outcome.complete) == (2, False)
    assert "of an evaluation: step 3 was left out" in outcome.reason
    assert [r["step"] for r in rows(folder)] == [0, 1, 2]
    newest = checkpoint.newest(folder)
    assert newest is not None
    assert newest.step == 2
    SLOW["held out"] = False
    train(config(save_every=1), SLOWLY, folder=folder, resume=True)
    assert rows(folder) == rows(tmp_path / "whole")
    assert (folder / "evals.jsonl").read_text() == (tmp_path / "whole" / "evals.jsonl").read_text()


@pytest.mark.usefixtures("calm")
def test_verdicts_that_come_in_time_let_the_step_finish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "GRACE_S", 30.0)
    outcome = train(config(), SLOWLY, folder=tmp_path / "run", watch=[slow_from(1, "train")])
    assert (outcome.steps, outcome.reason) == (2, "asked to stop (SIGTERM)")
    assert not interrupt.cut_short()
