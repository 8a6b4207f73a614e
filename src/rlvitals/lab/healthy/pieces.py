"""What hard cases are made of: another start, other items, a stretch of hard prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from rlvitals.env import Item
from rlvitals.grpo import tiny
from rlvitals.grpo.config import Config
from rlvitals.grpo.models import Policy
from rlvitals.grpo.parts import Parts, task_of
from rlvitals.grpo.rollout import Sampler, Trajectory
from rlvitals.grpo.tasks.arithmetic import item_of, sums
from rlvitals.grpo.tasks.base import Task
from rlvitals.lab.faults.common import chance

HARD_ITEMS = 2048
SHARE = 0.5  # of the prompts in a stretch that are hard


def starting_from(recipe: tiny.Recipe) -> Callable[[Config], Policy]:
    """Return the embedded policy of a recipe: another shape, or other demonstrations."""
    return lambda config: Policy(*tiny.load(recipe), identity=f"tiny-{recipe.key}")


def items_where(holds: Callable[[Item], bool]) -> Callable[[Config, Any], Task]:
    """Return the task with only those items, on both sides."""

    def task(config: Config, tokenizer: Any) -> Task:
        found = task_of(config, tokenizer)
        return replace(found, train=tuple(filter(holds, found.train)), held_out=tuple(filter(holds, found.held_out)))

    return task


class Stretch:
    """Every other prompt has more digits from step `first` to step `last`; tier and id are logged as what they are."""

    def __init__(self, first: int, last: int, digits: int) -> None:
        self._first, self._last, self._tier = first, last, str(digits)
        self._hard = tuple(item_of(s) for s in sums(digits, held_out=False, count=HARD_ITEMS, seed=0))
        self._usual: tuple[Item, ...] = ()
        self._both: tuple[Item, ...] = ()
        self._step = 1

    def parts(self) -> Parts:
        """Return the parts of a run with the stretch in it; each run starts its count anew."""
        inner = Parts()

        def task(config: Config, tokenizer: Any) -> Task:
            found = inner.task(config, tokenizer)
            self._step, self._usual = 1, tuple(found.train)
            self._both = (*self._usual, *self._hard)
            return replace(found, train=self._both)

        def collect(on: Task, items: Sequence[Item], size: int, *given: Any, **named: Any) -> list[Trajectory]:
            held_out = on.train is not self._both
            return inner.collect(on, items if held_out else [self._item(i) for i in items], size, *given, **named)

        def sync(sampler: Sampler, model: nn.Module, version: int, step: int) -> None:
            inner.sync(sampler, model, version, step)
            self._step = step + 1

        return replace(inner, task=task, collect=collect, sync=sync)

    def _item(self, drawn: Item) -> Item:
        """Return the drawn item, or one from the other side in its place: the pool holds both."""
        hard = self._first <= self._step <= self._last and chance("hard", drawn.id, self._step) < SHARE
        if (drawn.tier == self._tier) == hard:
            return drawn
        others = self._hard if hard else self._usual
        return others[int(chance(drawn.id, self._step) * len(others))]
