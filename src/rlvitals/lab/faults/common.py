"""What faults are made of: a clock that tells the step, an environment that answers otherwise, and settings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from rlvitals.env import Env, Item, Message, Step
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.rollout import Sampler
from rlvitals.grpo.tasks.base import Task
from rlvitals.lab.fault import Injection

Answer = Callable[[Item, str, Step, int], Step]
"""(item, text, true answer, training step) -> what the broken environment answers."""
ChangeItem = Callable[[Item, int], Item]


class Clock:
    """The training step under way, read off the synchronisation after each step."""

    def __init__(self) -> None:
        self.step = 1

    def ticking(self, parts: Parts) -> Parts:
        """Return the parts with the clock in them."""
        inner = parts.sync

        def sync(sampler: Sampler, model: nn.Module, version: int, step: int) -> None:
            inner(sampler, model, version, step)
            self.step = step + 1

        return replace(parts, sync=sync)


class Otherwise:
    """An environment whose answers, and items, are changed on the way."""

    def __init__(self, env: Env, clock: Clock, answer: Answer, item: ChangeItem | None) -> None:
        self.version = env.version
        self._env, self._clock, self._answer, self._change = env, clock, answer, item
        self._item: Item | None = None

    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        self._item = item if self._change is None else self._change(item, self._clock.step)
        return self._env.reset(self._item, seed)

    def step(self, text: str) -> Step:
        assert self._item is not None
        return self._answer(self._item, text, self._env.step(text), self._clock.step)


def as_it_is(item: Item, text: str, step: Step, now: int) -> Step:
    """Leave the answer alone."""
    return step


def answering(given: Injection, answer: Answer = as_it_is, item: ChangeItem | None = None) -> tuple[Config, Parts]:
    """Return the setup with a broken environment in training; what is held out stays the true task."""
    clock = Clock()
    inner = given.parts.task

    def task(config: Config, tokenizer: Any) -> Task:
        found = inner(config, tokenizer)
        new = found.new_env
        return replace(found, new_env=lambda: Otherwise(new(), clock, answer, item))

    return given.config, replace(clock.ticking(given.parts), task=task)


def scored(step: Step, reward: float, **changes: Any) -> Step:
    """Return the answer with another reward for being correct; what is said of it is then what was read from it."""
    if "raw" in changes:
        changes = {"parsed": changes["raw"] or None, **changes}
    return replace(step, rewards={**step.rewards, "correct": reward}, **changes)


def setting(given: Injection, **changes: object) -> tuple[Config, Parts]:
    """Return the setup with other settings."""
    return replace(given.config, **changes), given.parts  # type: ignore[arg-type]


def training_on(given: Injection, change: Callable[[Sequence[Item]], Sequence[Item]]) -> tuple[Config, Parts]:
    """Return the setup with other items to train on."""
    inner = given.parts.task

    def task(config: Config, tokenizer: Any) -> Task:
        found = inner(config, tokenizer)
        return replace(found, train=tuple(change(found.train)))

    return given.config, replace(given.parts, task=task)


def chance(*parts: object) -> float:
    """Return a number in [0, 1) that depends on its arguments alone."""
    digest = hashlib.sha256("\x1f".join(str(p) for p in parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
