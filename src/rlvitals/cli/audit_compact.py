"""`rlvitals audit compact`: what the reward function did in training, one row per trajectory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlvitals.cli.audit_common import Format, RunDir, finish, options, record_folder, say
from rlvitals.cli.common import Exit, leave

Folder = Annotated[
    Path, typer.Argument(metavar="[DIR]", help="Records of rlvitals.reward_probe; .rlvitals/rewards without it.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Parquet file; rewards.parquet beside the folder without it."),
]
Remove = Annotated[bool, typer.Option("--remove", help="Delete the lines once the file is written.")]


def compact(
    folder: Folder = Path(".rlvitals/rewards"),
    out: Out = None,
    remove: Remove = False,
    run: RunDir = None,
    format: Format = "terminal",
) -> None:
    """Turn what rlvitals.reward_probe recorded into one row per trajectory, and count errors.

    Exit code 0: no errors
    Exit code 1: calls raised or gave no number
    Exit code 2: wrong usage, or an input that cannot be read
    """
    options(None, format)
    from rlvitals.audit import compact as compacting

    files = sorted(folder.glob("*.jsonl"))
    target = out or folder.parent / "rewards.parquet"
    record = compacting.compact(folder, target)
    if remove:
        for path in files:
            path.unlink()
    say([f"{record.trajectories} trajectories are in {target}"])
    beside = folder.parent if folder.parent.name == ".rlvitals" and run is None else record_folder(run, folder)
    finish(record, beside, format)
    leave(Exit.FINDINGS if record.errors.count else Exit.OK)
