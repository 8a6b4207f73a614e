"""`rlvitals audit probe`: the verifier asked for answers whose reward is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlvitals.cli.audit_common import (
    Format,
    Map,
    Memory,
    RunDir,
    Seconds,
    finish,
    options,
    read_rollouts,
    record_folder,
    say,
)
from rlvitals.cli.common import Exit, leave, one_of
from rlvitals.errors import InputError, Problem

if TYPE_CHECKING:
    from rlvitals.audit.probeinputs import Case

Function = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:FUNCTION", help="The reward function, as training imports it; path/to/file.py:function too."
    ),
]
Tasks = Annotated[
    Path, typer.Option("--tasks", metavar="FILE", help="Tasks with prompt and gold answer: JSONL, CSV or parquet.")
]
Logged = Annotated[
    Path | None,
    typer.Option(
        "--logged", metavar="FILE", help="Completions of a run with their rewards: they must score the same now."
    ),
]
Correct = Annotated[Path | None, typer.Option("--correct", metavar="FILE", help="Completions known to be right.")]
Incorrect = Annotated[Path | None, typer.Option("--incorrect", metavar="FILE", help="Completions known to be wrong.")]
Template = Annotated[
    str,
    typer.Option(
        "--template",
        metavar="TEXT",
        help="How a completion gives its answer, with {gold} in it; the usual ones are tried without it.",
    ),
]
Calling = Annotated[
    str, typer.Option("--calling", metavar="NAME", help="TRL, verl, verifiers or plain; found by itself without it.")
]


def probe(
    function: Function,
    tasks: Tasks,
    logged: Logged = None,
    correct: Correct = None,
    incorrect: Incorrect = None,
    template: Template = "",
    calling: Calling = "",
    seconds: Seconds = 5.0,
    memory: Memory = 1024,
    map_: Map = None,
    run: RunDir = None,
    format: Format = "terminal",
) -> None:
    """Give the verifier answers whose reward is known, in a worker process with limits, as the trainer would.

    The completions: gold, other spellings of it, wrong, empty, the prompt alone, cut, very long, hostile.
    Another task's answer is among the wrong ones, and one task comes without a gold answer.
    The same input comes twice, in a fresh process, and in another order.

    Exit code 0: nothing wrong was found
    Exit code 1: findings
    Exit code 2: wrong usage, or an input that cannot be read
    """
    problems: list[Problem] = []
    if calling:
        one_of(calling, ("TRL", "verl", "verifiers", "plain"), "--calling", problems)
    if template and "{gold}" not in template:
        problems.append(Problem("no place for the answer", "--template", repr(template), "{gold} in it"))
    mapping = options(map_, format, *problems)
    from rlvitals.audit import probe as probing
    from rlvitals.audit.load import load_tasks

    items, gold_key = load_tasks(tasks, mapping)
    own = [
        *_own(logged, "logged", None, mapping),
        *_own(correct, "known right", True, mapping),
        *_own(incorrect, "known wrong", False, mapping),
    ]
    record = probing.probe(
        function, items, limits=probing.Limits(seconds, memory), calling=calling, gold_key=gold_key, template=template,
        logged=own, sources=[str(p) for p in (tasks, logged, correct, incorrect) if p is not None],
    )  # fmt: skip
    finish(record, record_folder(run, None if run else Path()), format)
    leave(Exit.FINDINGS if record.findings else Exit.OK)


MAX_LOGGED = 200  # of one file: each is one call


def _own(path: Path | None, kind: str, right: bool | None, mapping: dict[str, str]) -> list[Case]:
    """Return the user's own completions as inputs."""
    if path is None:
        return []
    import math

    from rlvitals.audit.calling import Ask
    from rlvitals.audit.probeinputs import Case

    rows = [r for r in read_rollouts(path, mapping).rows if r.completion is not None and r.gold]
    if not rows:
        raise InputError(
            Problem("no completion with a gold answer", str(path), hint="--map completion=KEY --map gold=KEY")
        )
    if len(rows) > MAX_LOGGED:
        every = -(-len(rows) // MAX_LOGGED)
        say([f"{path}: one in {every} of {len(rows)} completions is asked"])
        rows = rows[::every]
    out = []
    for r in rows:
        reward = None if math.isnan(r.reward) or right is not None else r.reward
        out.append(Case(kind, Ask(r.item(), r.completion or "", r.gold), right, r.name, reward))
    return out
