"""`rlvitals audit leakage`: held-out items that are in the training data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlvitals.cli.audit_common import Format, Map, RunDir, finish, options, record_folder
from rlvitals.cli.common import Exit, leave
from rlvitals.errors import Problem

HeldOut = Annotated[Path, typer.Argument(metavar="HELD_OUT", help="The held-out set: JSONL, CSV or parquet.")]
Train = Annotated[list[Path] | None, typer.Option("--train", metavar="FILE", help="RL training tasks. Repeatable.")]
Sft = Annotated[
    list[Path] | None, typer.Option("--sft", metavar="FILE", help="Data of the supervised warm start. Repeatable.")
]
FewShot = Annotated[
    list[Path] | None, typer.Option("--few-shot", metavar="FILE", help="Examples that prompts carry. Repeatable.")
]
Family = Annotated[
    list[str] | None,
    typer.Option("--held-out-family", metavar="NAME", help="A family meant to be wholly held out. Repeatable."),
]


def leakage(
    held_out: HeldOut,
    train: Train = None,
    sft: Sft = None,
    few_shot: FewShot = None,
    family: Family = None,
    map_: Map = None,
    run: RunDir = None,
    format: Format = "terminal",
) -> None:
    """Compare every training path with the held-out set: exact, normalised, n-gram and near-duplicate overlap.

    Tasks of one template with other numbers are counted apart; they are no leak.

    Exit code 0: nothing was found
    Exit code 1: held-out items or families are in the training data
    Exit code 2: wrong usage, or an input that cannot be read
    """
    paths = {"train": train or [], "sft": sft or [], "few-shot": few_shot or []}
    given = [p for files in paths.values() for p in files]
    nothing = (
        []
        if given
        else [Problem("nothing to compare with", "rlvitals audit leakage", expected="--train, --sft or --few-shot")]
    )
    mapping = options(map_, format, *nothing)
    from rlvitals.audit.leakage import examine_leakage
    from rlvitals.audit.rows import read_rows

    asked = read_rows(held_out, mapping, needs=("prompt",))
    training = {
        name: [r for p in files for r in read_rows(p, mapping, needs=("prompt",)).rows]
        for name, files in paths.items()
        if files
    }  # fmt: skip
    record = examine_leakage(
        training, asked.rows, families=family or (), subject=held_out.name, sources=[str(p) for p in (held_out, *given)]
    )
    finish(record, record_folder(run, held_out), format)
    leave(Exit.FINDINGS if record.leaked.count or record.shared_families else Exit.OK)
