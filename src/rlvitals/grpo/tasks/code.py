"""Programs judged by tests. Off unless asked for by name: it runs what the policy writes.

Each judgement is a process of its own, in an empty folder, with an empty environment, limits on CPU time, memory, file
size and processes, and without a network where the system lets a process give it up. That contains accidents. It is no
security boundary: who trains on hostile data runs the whole trainer in a container or a virtual machine.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from rlvitals.env import Item, Message, Step, StopReason, VerifierStatus
from rlvitals.errors import InputError, Problem
from rlvitals.grpo.rewards.program import Limits, run_program
from rlvitals.grpo.tasks.base import Task, identity, split
from rlvitals.grpo.tasks.columns import choose, items_of
from rlvitals.grpo.tasks.dataset import read_lines
from rlvitals.grpo.tasks.options import Option, Options

SYSTEM = "Write a Python program. Put the whole program into one ```python block."
BLOCK = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)

OPTIONS: tuple[Option, ...] = (
    Option("path", "JSON lines file with a question and tests, Python code that raises where the program is wrong"),
    Option("allow", "yes: run what the policy writes on this machine", "no"),
    Option("prompt", "column of the question"),
    Option("tests", "column of the tests", "tests"),
    Option("held_out_percent", "share of the file that is held out, percent", "10"),
    Option("held_out_items", "held-out items kept at most", "200"),
    Option("seconds", "time limit of one judgement, seconds", "5"),
    Option("memory_mb", "memory limit of one judgement, MiB", "512"),
    Option("max_tokens", "completion budget that right answers fit into, tokens", "1024"),
)


def program_of(text: str) -> str | None:
    """Return the last code block behind the thinking, None where there is none."""
    found = BLOCK.findall(text.rsplit("</think>", 1)[-1])
    return str(found[-1]) if found else None


class CodeEnv:
    """One question, one program."""

    def __init__(self, limits: Limits) -> None:
        self.version = identity("code", limits, 1)
        self._limits, self._tests = limits, ""

    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        self._tests = item.gold
        return item.messages

    def step(self, text: str) -> Step:
        program = program_of(text)
        if program is None:
            return Step(rewards={"correct": 0.0}, status=VerifierStatus.NO_PARSE)
        status, said = run_program(program, self._tests, self._limits)
        failed = status is VerifierStatus.ERROR
        reward = math.nan if failed else float(status is VerifierStatus.RIGHT)
        return Step(rewards={"correct": reward}, raw=said, status=status, reason=StopReason.ERROR if failed else None)


def code_task(options: Options) -> Task:
    """Return the task. InputError unless `allow=yes`, and for a missing file, column or broken rows."""
    if not options.flag("allow"):
        raise InputError(
            Problem(
                "this task runs programs that the policy writes, and limits are no security boundary",
                "code: allow", "no", "yes", "Run it where nothing can be lost, with --task code:path=FILE,allow=yes",
            )
        )  # fmt: skip
    path = options.text("path")
    if not path:
        raise InputError(Problem("no dataset named", "code: path", hint="Try --task code:path=FILE,allow=yes"))
    rows = read_lines(Path(path))
    columns = choose(
        list(dict.fromkeys(k for row in rows[:100] for k in row)), path,
        prompt=options.text("prompt"), answer=options.text("tests"),
    )  # fmt: skip
    items = items_of(rows, columns, path, system=SYSTEM, verbatim=True)
    train, held_out = split(items, held_out_percent=options.whole("held_out_percent"))
    if not train:
        raise InputError(Problem("no items left to train on", path, f"{len(items)} items, all of them held out"))
    limits = Limits(seconds=options.number("seconds"), memory_mb=options.whole("memory_mb"))
    return Task(
        name="code",
        version=CodeEnv(limits).version,
        train=train,
        held_out=held_out[: options.whole("held_out_items")],
        new_env=lambda: CodeEnv(limits),
        max_new_tokens=options.whole("max_tokens"),
    )
