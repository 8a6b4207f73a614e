"""This project's trainer on a piece of work, as it ships: every log and every rollout is written."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.peer.setup import Marks, Work, coin, forget_peak, load
from rlvitals.env import Env, Item, Message, Step, VerifierStatus
from rlvitals.grpo import packing, update
from rlvitals.grpo import score as scoring
from rlvitals.grpo.collect import collect
from rlvitals.grpo.config import Config
from rlvitals.grpo.loop import Row, train
from rlvitals.grpo.parts import Parts, task_of
from rlvitals.grpo.run import Run
from rlvitals.grpo.tasks.base import Task


class _Paid:
    """An environment that pays by a hash of the answer."""

    def __init__(self, env: Env) -> None:
        self.version, self._env = env.version, env

    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        return self._env.reset(item, seed)

    def step(self, text: str) -> Step:
        paid = coin(text)
        status = VerifierStatus.RIGHT if paid else VerifierStatus.WRONG
        return replace(self._env.step(text), rewards={"correct": paid}, status=status)


def task_by_coin(config: Config, tokenizer: Any) -> Task:
    """Return the task of the config, paid by a hash of the answer."""
    true = task_of(config, tokenizer)
    return replace(true, new_env=lambda: _Paid(true.new_env()))


def measure(work: Work) -> dict[str, Any]:
    """Return the times and the memory of a run."""
    marks, policy = Marks(), load(work)
    parts = replace(
        Parts(),
        model=lambda _: policy,
        task=task_by_coin if work.coin else task_of,
        collect=marks.timed("sampling", collect),
        pack=marks.timed("scoring", packing.pack),
        score=marks.timed("scoring", scoring.score),
        update=marks.timed("update", update.update),
    )

    def after(run: Run, row: Row, held_out: object) -> None:
        marks.step(row["length_mean"])
        if work.eval_every and run.step % work.eval_every == 0:
            marks.look(run.step, policy.model, policy.tokenizer, run.held_out, work.budget)

    before = forget_peak()
    marks.start()
    with tempfile.TemporaryDirectory() as folder:
        train(work.config, parts, folder=Path(folder) / "run", watch=(after,))
    return marks.result(work, before)
