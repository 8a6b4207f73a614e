"""`rlvitals rollouts`: the trajectories of a run, filtered, group by group; or what is counted over all of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlvitals.cli.common import INPUT_PANEL, SHOW_PANEL, one_of
from rlvitals.errors import InputError, Problem

if TYPE_CHECKING:
    from rlvitals.rollouts.dump import Rollouts
    from rlvitals.rollouts.where import Filter

FORMATS = ("terminal", "json", "html")
ENGINES = ("local", "ray")
MAX_LIMIT = 10_000
_COUNT_PANEL = "Counting over all rollouts"
_EXPLOIT_PANEL = "The text of a suspected exploit"

At = Annotated[Path, typer.Argument(metavar="PATH", help="A run directory or a rollout dump.")]
Where = Annotated[
    str | None,
    typer.Option("--where", metavar="FILTER", help="Such as 'step=120 and reward>0.5 and family=math'; "
                 "text: completion~\"as an AI\"; absent: reward=none."),
]  # fmt: skip
Step = Annotated[int | None, typer.Option("--step", help="Rollouts of this step.")]
Group = Annotated[str | None, typer.Option("--group", help="Rollouts of this group.")]
Kind = Annotated[str | None, typer.Option("--family", help="Rollouts of this task family.")]
Stop = Annotated[str | None, typer.Option("--stop-reason", help="Ended so: eos, budget, timeout, error ...")]
Limit = Annotated[int, typer.Option("--limit", rich_help_panel=SHOW_PANEL, help="Rollouts shown at most.")]
Chars = Annotated[
    int, typer.Option("--chars", rich_help_panel=SHOW_PANEL, help="Characters of each text shown in the terminal.")
]
Form = Annotated[str, typer.Option("--format", rich_help_panel=SHOW_PANEL, help="terminal, json or html.")]
Map = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="COLUMN=KEY", rich_help_panel=INPUT_PANEL,
                 help="Say what a key of the dump is: reward=score. Repeatable."),
]  # fmt: skip
Size = Annotated[
    int | None, typer.Option("--group-size", rich_help_panel=INPUT_PANEL, help="Rollouts per prompt, if not told.")
]
Convert = Annotated[
    bool, typer.Option("--how-to-convert", rich_help_panel=INPUT_PANEL,
                       help="Print the lines that turn slime's .pt files into JSON lines, and stop."),
]  # fmt: skip
Counts = Annotated[
    bool, typer.Option("--counts", rich_help_panel=_COUNT_PANEL, help="Show the series that are counted, not rollouts.")
]
Full = Annotated[
    bool, typer.Option("--full", rich_help_panel=_COUNT_PANEL, help="Read every text, not 64 rollouts per step.")
]
Exploit = Annotated[
    bool, typer.Option("--exploit", rich_help_panel=_EXPLOIT_PANEL,
                       help="Show the words that newly rewarded rollouts share and the old ones do not."),
]  # fmt: skip
Since = Annotated[
    int | None, typer.Option("--onset", metavar="STEP", rich_help_panel=_EXPLOIT_PANEL,
                             help="Where new begins; else where `check` suspects that hacking began."),
]  # fmt: skip
Engine = Annotated[str, typer.Option("--engine", rich_help_panel=_COUNT_PANEL, help="local, or ray: on a Ray cluster.")]


def rollouts(
    path: At,
    where: Where = None,
    step: Step = None,
    group: Group = None,
    family: Kind = None,
    stop_reason: Stop = None,
    limit: Limit = 16,
    chars: Chars = 600,
    format_: Form = "terminal",
    counts: Counts = False,
    full: Full = False,
    engine: Engine = "local",
    exploit: Exploit = False,
    onset: Since = None,
    map_: Map = None,
    group_size: Size = None,
    how_to_convert: Convert = False,
) -> None:
    """Show rollouts of a run, whole and escaped; nothing of their text is ever run."""
    from rlvitals.ingest.trajectories import opened
    from rlvitals.rollouts.dump import parse_map

    if how_to_convert:
        from rlvitals.rollouts.readers.slime import CONVERT

        print(CONVERT)
        return
    problems: list[Problem] = []
    one_of(format_, FORMATS, "--format", problems)
    one_of(engine, ENGINES, "--engine", problems)
    if not 1 <= limit <= MAX_LIMIT:
        problems.append(Problem("out of range", "--limit", str(limit), f"1 to {MAX_LIMIT}"))
    for option, value in (("--chars", chars), ("--group-size", group_size)):
        if value is not None and value < 1:
            problems.append(Problem("out of range", option, str(value), "1 or more"))
    if exploit and counts:
        problems.append(Problem("--exploit and --counts exclude each other", "--exploit", expected="one of them"))
    if onset is not None and not exploit:
        problems.append(Problem("only with --exploit", "--onset", str(onset)))
    if problems:
        raise InputError(*problems)
    dump = opened(path, parse_map(map_ or ()), group_size)
    if exploit:
        from rlvitals.cli.rollouts_exploit import show_exploit

        show_exploit(path, dump, onset, format_)
    elif counts:
        _show_counts(dump, format_, engine, full=full)
    else:
        _show(dump, _filter(where, step, group, family, stop_reason), limit, chars, format_)


def _show(dump: Rollouts, where: Filter | None, limit: int, chars: int, form: str) -> None:
    from rlvitals.cli.rollouts_view import as_html, as_json, as_text
    from rlvitals.rollouts.pick import pick

    found = pick(dump, where, limit)
    if form == "terminal":
        as_text(dump, found, chars)
    else:
        sys.stdout.write(as_json(dump, found) if form == "json" else as_html(dump, found))


def _show_counts(dump: Rollouts, form: str, engine: str, *, full: bool) -> None:
    """Print every series that is folded from the rollouts."""
    from rlvitals.cli.rollouts_view import counts_json, counts_text
    from rlvitals.rollouts.sample import PER_STEP

    sample = None if full else PER_STEP
    if engine == "ray":
        from rlvitals.rollouts import cluster

        folded, found = cluster.count(dump, text_sample=sample)
    else:
        from rlvitals.rollouts import counting

        folded, found = counting.count(dump, text_sample=sample)
    sys.stdout.write(counts_json(found, folded) if form == "json" else counts_text(found, folded))


def _filter(
    where: str | None, step: int | None, group: str | None, family: str | None, stop: str | None
) -> Filter | None:
    from rlvitals.rollouts.where import both, equal, parse

    filters = [parse(where)] if where is not None else []
    given = {"step": step, "group": group, "family": family, "stop_reason": stop}
    filters += [equal(name, str(value)) for name, value in given.items() if value is not None]
    return both(filters)
