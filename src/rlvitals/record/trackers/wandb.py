"""Weights & Biases: fields of the run's summary. Offline (WANDB_MODE=offline) they are synced later like any run."""

from __future__ import annotations

import os
from typing import Any

from rlvitals.errors import InputError, Problem
from rlvitals.record.entry import Entry
from rlvitals.record.trackers.fields import PREFIX, flat


def write(run: str, entry: Entry) -> None:
    """Write the summary of PROJECT/RUN_ID or ENTITY/PROJECT/RUN_ID. Raises InputError without wandb or such a run."""
    try:
        import wandb
    except ImportError as error:
        raise InputError(Problem("wandb is not installed", hint="pip install 'rlvitals[wandb]'")) from error
    parts = run.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise InputError(Problem("not a W&B run", "--also", repr(f"wandb:{run}"), "wandb:PROJECT/RUN_ID"))
    entity = parts[0] if len(parts) == 3 else None
    try:
        # read here: wandb may have read its own settings long before
        mode: Any = os.environ.get("WANDB_MODE") or None
        folder = os.environ.get("WANDB_DIR") or None
        with wandb.init(
            entity=entity, project=parts[-2], id=parts[-1], resume="allow", mode=mode, dir=folder
        ) as opened:
            opened.summary.update({f"{PREFIX}/{name}": value for name, value in flat(entry).items()})
    except wandb.Error as error:
        raise InputError(Problem("W&B did not take the record", f"wandb:{run}", str(error)[:300])) from error
