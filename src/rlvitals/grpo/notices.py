"""What is told before the first step: that nothing is held out, and what is odd about the items."""

from __future__ import annotations

from rlvitals.errors import Problem
from rlvitals.grpo.config import Config
from rlvitals.grpo.tasks.base import Task
from rlvitals.grpo.tasks.options import name_of

_HOW = {
    "dataset": "name a file, --task dataset:...,held_out_path=FILE, or hold out more, held_out_percent=20",
    "code": "hold out more, --task code:...,held_out_percent=20, and keep held_out_items above 0",
    "gym": "--task gym:...,held_out=100; a puzzle with few questions needs a larger held_out",
}


def without_held_out(config: Config, held_out: Task) -> str:
    """Return why a run has no held-out score, "" when it has one."""
    if not held_out.held_out:
        return f"the task {name_of(config.task)} has 0 held-out items"
    return "" if config.eval_every else "eval_every is 0"


def how_to_get_one(config: Config, held_out: Task) -> str:
    """Return what to do for a held-out score."""
    if held_out.held_out:
        return "--set eval_every=10"
    return _HOW.get(name_of(config.task), "give the task items to hold out")


def notices(config: Config, task: Task, held_out: Task) -> list[str]:
    """Return a sentence for each."""
    said = list(task.notes)
    if why := without_held_out(config, held_out):
        said.append(
            f"no held-out score: {why}, so reward that is gamed or memorised looks like progress; to get one: "
            f"{how_to_get_one(config, held_out)}"
        )
    return said


def impatient(config: Config, held_out: Task) -> list[Problem]:
    """Return what is wrong with a stop rule that looks at a score which is never measured."""
    why = without_held_out(config, held_out)
    if not (config.patience and why):
        return []
    hint = f"Try {how_to_get_one(config, held_out)}, or leave patience at 0"
    return [Problem("a stop rule without a held-out score", "patience", f"{config.patience}, and {why}", "", hint)]
