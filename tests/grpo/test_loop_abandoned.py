"""A run that is asked to stop in an evaluation leaves its step out, whether or not that step moved the weights."""

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

from rlvitals.env import Step, VerifierStatus
from rlvitals.grpo import checkpoint, interrupt
from rlvitals.grpo.evaluate import HeldOut
from rlvitals.grpo.loop import train
from rlvitals.grpo.run import Run
from rlvitals.grpo.tasks.base import Task
from tests.grpo.loops import PARTS, HasSeven, config, one_thread, rows, sevens

SLOW = threading.Event()


class Wrong(HasSeven):
    """Pays nobody, so every group is tied."""

    def step(self, text: str) -> Step:
        return Step((), {"correct": 0.0}, text, VerifierStatus.WRONG)


class Asked(HasSeven):
    """Asks the run to stop once it is told to, and takes its time."""

    def step(self, text: str) -> Step:
        if SLOW.is_set():
            if not interrupt._active[-1].asked:
                os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.1)
        return super().step(text)


def of(env: type[HasSeven]) -> Any:
    def make(settings: Any, tokenizer: Any) -> Task:
        return replace(sevens(settings, tokenizer), new_env=env)

    return make


def slow_after_two(run: Run, row: Mapping[str, float], held_out: HeldOut | None) -> None:
    if run.step == 2:
        SLOW.set()


@pytest.mark.parametrize("env", [Wrong, HasSeven])
def test_a_step_whose_evaluation_was_cut_short_is_made_again(
    env: type[HasSeven], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_thread()
    monkeypatch.setattr(interrupt, "GRACE_S", 0.1)
    parts = replace(PARTS, task=of(env), held_out=of(Asked))
    settings = config(recipe="default", dead_steps=0, resample_tries=0, eval_items=8)
    folder = tmp_path / "run"
    train(settings, parts, folder=tmp_path / "whole")
    try:
        outcome = train(settings, parts, folder=folder, watch=[slow_after_two])
    finally:
        SLOW.clear()
    updates = [r["extra/optimizer_steps"] > 0 for r in rows(tmp_path / "whole") if r["step"] > 0]
    assert any(updates) is (env is HasSeven)
    assert (outcome.steps, outcome.complete) == (2, False)
    assert "of an evaluation: step 3 was left out" in outcome.reason
    newest = checkpoint.newest(folder)
    assert newest is not None
    assert newest.step == 2
    assert [r["step"] for r in rows(folder)] == [0, 1, 2]
    train(settings, parts, folder=folder, resume=True)
    assert rows(folder) == rows(tmp_path / "whole")
    assert (folder / "evals.jsonl").read_text() == (tmp_path / "whole" / "evals.jsonl").read_text()
    last = "checkpoints/checkpoint-6/model.safetensors"
    assert (folder / last).read_bytes() == (tmp_path / "whole" / last).read_bytes()
