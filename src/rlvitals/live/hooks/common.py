"""What the hooks share: a monitor that knows the trainer's settings, and the sentence that asks a trainer to stop."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlvitals.errors import InputError, Problem
from rlvitals.ingest import registry
from rlvitals.live.monitor import Monitor
from rlvitals.live.stop import StopRequest
from rlvitals.live.trouble import LOG
from rlvitals.schema import RunConfig

DIRECTORY = "RLVITALS_DIR"  # where hooks that a trainer loads by name keep their rows
DEFAULT_DIRECTORY = "vitals"


def config_of(trainer: str, settings: Mapping[str, Any], label: str) -> RunConfig:
    """Return what a trainer's own settings say of the run; `label` names them in the config's sources."""
    from rlvitals.ingest.configfiles import read_mapping

    adapter = registry.by_name(trainer)
    return RunConfig() if adapter is None else read_mapping(settings, adapter, label).config


def monitor_for(trainer: str, settings: Mapping[str, Any] | None = None, label: str = "", **options: Any) -> Monitor:
    """Return a monitor of a trainer; `options` are those of Monitor and win over the settings."""
    config = options.pop("config", None)
    if settings is not None:
        found = config_of(trainer, settings, label)
        config = found if config is None else found.merged(config)
    return Monitor(config, trainer=trainer, **options)


@functools.cache
def shared(trainer: str) -> Monitor:
    """Return the one monitor of this process for hooks that a trainer loads by name and calls without an object.

    It keeps its rows in the directory named by the variable RLVITALS_DIR, `vitals` when that is not set.
    """
    return Monitor(trainer=trainer, directory=Path(os.environ.get(DIRECTORY) or DEFAULT_DIRECTORY))


@contextmanager
def harmless(monitor: Monitor, trainer: str) -> Iterator[None]:
    """Keep what a hook itself does wrong out of training: another version of the trainer may lack what it reads."""
    try:
        yield
    except Exception as error:
        monitor.noted.note(f"the hook of {trainer} failed", error)


def missing(package: str, trainer: str, error: ImportError) -> InputError:
    """Return the error for a trainer that is not installed."""
    return InputError(
        Problem(f"the hook of {trainer} needs the package {package}", found=str(error), hint=f"pip install {package}")
    )


def said(request: StopRequest, asked: str) -> None:
    """Say once that a stop was asked for, of whom, and why."""
    LOG.warning("rlvitals: %s at step %d: %s", asked, request.step, request.reason)


def prefixed(metrics: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the metrics under prefix/key, as trackers show them."""
    return {f"{prefix}/{key}": value for key, value in metrics.items()} if prefix else dict(metrics)
