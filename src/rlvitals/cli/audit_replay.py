"""`rlvitals audit replay`: episodes played again from their seeds."""

from __future__ import annotations

from collections.abc import Sequence
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
    from rlvitals.audit.rows import Row

Rollouts = Annotated[Path, typer.Argument(metavar="ROLLOUTS", help="Episodes with seed, turns and task.")]
Env = Annotated[
    str,
    typer.Option(
        "--env", metavar="MODULE:CLASS", help="The environment: reset(item, seed) and step(text), see rlvitals.env."
    ),
]
Tasks = Annotated[
    Path | None,
    typer.Option("--tasks", metavar="FILE", help="Tasks by prompt_id, where the episodes do not hold them."),
]
Pick = Annotated[
    list[str] | None,
    typer.Option(
        "--pick", metavar="KIND", help="longest, crashed, top or off-group. Repeatable; all in turn without it."
    ),
]
Episode = Annotated[
    list[str] | None, typer.Option("--episode", metavar="STEP/GROUP/INDEX", help="This episode. Repeatable.")
]
Count = Annotated[int, typer.Option("--n", metavar="N", min=1, help="Episodes to replay.")]


def replay(
    rollouts: Rollouts,
    env: Env,
    tasks: Tasks = None,
    pick: Pick = None,
    episode: Episode = None,
    n: Count = 12,
    seconds: Seconds = 60.0,
    memory: Memory = 2048,
    map_: Map = None,
    run: RunDir = None,
    format: Format = "terminal",
) -> None:
    """Replay episodes from their seeds, twice, each in a process of its own; compare reward, ending and observations.

    Exit code 0: all come out as logged
    Exit code 1: findings
    Exit code 2: wrong usage, or an input that cannot be read
    """
    from rlvitals.audit.replay import PICKS

    problems: list[Problem] = []
    for kind in pick or ():
        one_of(kind, PICKS, "--pick", problems)
    mapping = options(map_, format, *problems)
    from rlvitals.audit import replay as replaying
    from rlvitals.audit.load import load_tasks

    found = read_rollouts(rollouts, mapping)
    say(found.notes)
    chosen = _named(found.rows, episode) if episode else replaying.pick(found.rows, pick or PICKS, n)
    items = {i.id: i for i in load_tasks(tasks, mapping)[0]} if tasks is not None else {}
    record = replaying.replay(env, chosen, tasks=items, seconds=seconds, memory_mb=memory, sources=[str(rollouts)])
    finish(record, record_folder(run, rollouts), format)
    leave(Exit.FINDINGS if record.findings else Exit.OK)


def _named(rows: Sequence[Row], names: Sequence[str]) -> tuple[Row, ...]:
    by_name = {f"{r.step}/{r.group}/{r.index}": r for r in rows}
    missing = [n for n in names if n not in by_name]
    if missing:
        raise InputError(*(Problem("no such episode", "--episode", n, "STEP/GROUP/INDEX of the dump") for n in missing))
    return tuple(by_name[n] for n in names)
