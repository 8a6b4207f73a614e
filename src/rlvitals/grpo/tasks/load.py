"""Every task by name: what `--task name:key=value` may say, and the list of tasks."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace

from rlvitals.errors import InputError, Problem
from rlvitals.grpo.chat import Tokenizer
from rlvitals.grpo.rewards.shaping import SHAPING, shaped
from rlvitals.grpo.tasks import code, dataset, gym
from rlvitals.grpo.tasks.arithmetic import TIERS, arithmetic
from rlvitals.grpo.tasks.base import Task
from rlvitals.grpo.tasks.calculator import calculator
from rlvitals.grpo.tasks.options import Option, Options, name_of, parse


@dataclass(frozen=True, slots=True)
class TaskKind:
    """One kind of task: its name, one sentence about it, its own options and what makes it."""

    name: str
    says: str
    options: tuple[Option, ...]
    make: Callable[[Options], Task]


KINDS: tuple[TaskKind, ...] = (
    TaskKind(
        "arithmetic",
        "Sums written out between thinking tags; embedded, needs no download.",
        (Option("tiers", "digits of the addends, 1 to 4, joined by +", "2", choices=TIERS, each="tier"),),
        lambda options: arithmetic(options.words("tiers")),
    ),
    TaskKind(
        "calculator",
        "Sums of three numbers with a calculator tool, at most 4 turns; embedded, needs no download.",
        (),
        lambda _: calculator(),
    ),
    TaskKind(
        "dataset",
        "Questions and answers from JSON lines or the Hugging Face hub.",
        dataset.OPTIONS,
        dataset.dataset_task,
    ),
    TaskKind("gym", "Generated puzzles of reasoning-gym.", gym.OPTIONS, gym.gym_task),
    TaskKind("code", "Programs judged by tests; runs what the policy writes.", code.OPTIONS, code.code_task),
)


def kind_of(spec: str) -> TaskKind:
    """Return the kind that a spec names. InputError with the nearest name where there is none."""
    name = name_of(spec)
    names = [k.name for k in KINDS]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"Nearest: {near[0]}" if near else "Try --task arithmetic"
        raise InputError(Problem("unknown task", "task", repr(name), ", ".join(names), hint))
    return KINDS[names.index(name)]


def load_task(spec: str, tokenizer: Tokenizer | None = None) -> Task:
    """Return the task that `name:key=value,key=value` names, its reward shaped as the options ask.

    Args:
        tokenizer: the policy's; where its vocabulary has each thinking tag as one token, the format reward looks at
            token ids, else at the text.

    InputError for unknown names and options, and whatever is wrong with the task's data, all at once where it can be.
    """
    kind = kind_of(spec)
    options = parse(spec, (*kind.options, *SHAPING))
    task = kind.make(options)
    return replace(task, plan=shaped(task.plan, options, tokenizer, gives=task.gives))
