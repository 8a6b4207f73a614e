"""Programs judged by tests. Off unless asked for by name: it runs what the policy writes.

Each judgement is a process of its own, in an empty folder, with an empty environment, limits on CPU time, memory, file
size and processes, and without a network where the system lets a process give it up. That contains accidents. It is no
security boundary: who trains on hostile data runs the whole trainer in a container or a virtual machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

from rlvitals.env import Item, Message, Step, StopReason, VerifierStatus
from rlvitals.errors import InputError, Problem
from rlvitals.grpo.rewards.program import Limits, run_program
from rlvitals.grpo.tasks.base import Task, identity, split
from rlvitals.grpo.tasks.columns import Columns, Row, choose, items_of, repeats
from rlvitals.grpo.tasks.lines import rows_of
from rlvitals.grpo.tasks.options import MAX_ITEMS, MAX_SECONDS, MAX_TOKENS, MIN_SECONDS, Kind, Option, Options

SYSTEM = "Write a Python program. Put the whole program into one ```python block."
MIN_MB, MAX_MB = 64, 2**20  # Python alone starts with 16 to 32 MiB of address space (measured on 3.11); 1 TiB
BLOCK = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)

OPTIONS: tuple[Option, ...] = (
    Option(
        "path", "JSON lines file with a question and tests, Python code that raises where the program is wrong",
        needed="Try --task code:path=FILE,allow=yes",
    ),
    Option("allow", "yes: run what the policy writes on this machine", "no", Kind.FLAG),
    Option("prompt", "column of the question"),
    Option("tests", "column of the tests", "tests"),
    Option("held_out_percent", "share of the file that is held out, percent", "10", Kind.WHOLE, 0, 99),
    Option("held_out_items", "held-out items kept at most", "200", Kind.WHOLE, 0, MAX_ITEMS),
    Option("seconds", "time limit of one judgement, seconds", "5", Kind.NUMBER, MIN_SECONDS, MAX_SECONDS),
    Option("memory_mb", "memory limit of one judgement, MiB", "512", Kind.WHOLE, MIN_MB, MAX_MB),
    Option("max_tokens", "completion budget that right answers fit into, tokens", "1024", Kind.WHOLE, 1, MAX_TOKENS),
)  # fmt: skip


def program_of(text: str) -> str | None:
    """Return the last code block behind the thinking, None where there is none."""
    found = BLOCK.findall(text.rsplit("</think>", 1)[-1])
    return str(found[-1]) if found else None


class CodeEnv:
    """One question, one program, judged in a process of its own."""

    concurrent = True

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


def _columns(rows: Sequence[Row], path: str, options: Options) -> Columns:
    """Return the columns of questions and tests. InputError names whichever is missing, both at once."""
    found = list(dict.fromkeys(k for row in rows[:100] for k in row))
    tests, problems = options.text("tests"), []
    if tests not in found:
        problems.append(
            Problem(f"no tests column {tests!r}", path, ", ".join(found[:20]) or "no columns",
                    "a column of Python code that raises where the program is wrong", "Name it: tests=COLUMN")
        )  # fmt: skip
    try:
        columns = choose(
            found, path, prompt=options.text("prompt"), answer=tests if tests in found else "".join(found[:1])
        )
    except InputError as error:
        problems += error.problems
    if problems:
        raise InputError(*problems)
    return columns


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
    rows = rows_of(Path(path), "task: path")
    columns = _columns(rows, path, options)
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
        notes=repeats(items, path),
    )
