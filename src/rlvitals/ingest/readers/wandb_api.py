"""W&B runs through W&B's own client: wandb://entity/project/run, where the package and a key are there."""

from __future__ import annotations

import os
from typing import Any

from rlvitals.errors import InputError, Problem
from rlvitals.ingest.readers.wandb_offline import SKIPPED_KEYS
from rlvitals.ingest.table import RawTable, TableBuilder
from rlvitals.schema import Event, EventKind

TIMEOUT_S = 60  # of one request (convention)
PAGE = 1000  # rows per request


def read_url(url: str) -> RawTable:
    """Read a run's whole history, unsampled. Raises InputError."""
    path = url.removeprefix("wandb://").strip("/")
    if path.count("/") != 2 or not all(path.split("/")):
        raise InputError(Problem("not the path of a W&B run", url, expected="wandb://entity/project/run_id"))
    api = _client(url)
    try:
        run = api.run(path)
        builder = TableBuilder(url)
        for number, row in enumerate(run.scan_history(page_size=PAGE), 1):
            builder.add({k: v for k, v in row.items() if v is not None and k not in SKIPPED_KEYS}, number)
        config = {str(k): v for k, v in dict(run.config).items() if not str(k).startswith("_")}
        state = str(run.state)
    except InputError:
        raise
    except Exception as error:  # the client raises its own kinds, and those of its transport
        raise InputError(
            Problem("W&B did not return the run", url, f"{type(error).__name__}: {error}"[:200])
        ) from error
    facts = {"configs": {"W&B config": config}} if config else {}
    return builder.build((), _ending(state), facts=facts)


def _client(url: str) -> Any:
    try:
        import wandb
    except ImportError:
        raise InputError(
            Problem("W&B runs need the wandb package", url, hint="Install it with: pip install 'rlvitals[wandb]'")
        ) from None
    if not _has_key(wandb):
        raise InputError(
            Problem("no W&B key found", url, hint="Log in with `wandb login`, or export the run's history as CSV")
        )
    return wandb.Api(timeout=TIMEOUT_S)


def _has_key(wandb: Any) -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return bool(wandb.Api(timeout=TIMEOUT_S).api_key)
    except Exception:  # without a key some versions raise here
        return False


def _ending(state: str) -> tuple[Event, ...]:
    if state == "finished":
        return (Event(EventKind.FINISHED, None, "W&B's run state is finished"),)
    if state in ("crashed", "failed", "killed"):
        return (Event(EventKind.CRASH, None, f"W&B's run state is {state}"),)
    return ()
