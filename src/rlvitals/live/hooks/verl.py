"""verl: a backend of its `Tracking`, which every trainer of verl logs through.

    from rlvitals.live.hooks import verl
    verl.install(directory="vitals")        # in the process that builds the trainer, before it does

or, where the Tracking object is at hand, `verl.attach(tracking, monitor)`. verl's trainers have no way to be asked to
stop, so a request of `stop_on` is said in the log and left to the caller (`monitor.stop_request`).
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Any

from rlvitals.live.hooks.common import missing, monitor_for, said
from rlvitals.live.monitor import Monitor

NAME = "rlvitals"


class Backend:
    """What `Tracking.logger` holds per backend: an object with `log(data=, step=)` and `finish()`."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor

    def log(self, data: Mapping[str, Any], step: int) -> None:
        """Take the metrics of a step."""
        self.monitor.log(step, data)
        request = self.monitor.stop_due()
        if request is not None:
            said(request, "this run should stop; verl has no switch for it")

    def finish(self) -> None:
        """End of the run."""
        self.monitor.close()


def attach(tracking: Any, monitor: Monitor) -> None:
    """Add the monitor to the backends of one Tracking object."""
    tracking.logger[NAME] = Backend(monitor)


def install(**options: Any) -> None:
    """Add a monitor to every Tracking object built from now on in this process; its config is read with it.

    `options` are those of Monitor. Raises InputError when verl is not installed.
    """
    try:
        module = importlib.import_module("verl.utils.tracking")
    except ImportError as error:
        raise missing("verl", "verl", error) from error
    wrap(module.Tracking, **options)


def wrap(tracking_class: Any, **options: Any) -> None:
    """Make a Tracking class add the monitor to each object's backends; once per class."""
    build = tracking_class.__init__
    if getattr(build, "_rlvitals", False):
        return

    @functools.wraps(build)
    def built(
        self: Any, project_name: str, experiment_name: str, *args: Any, config: Any = None, **kwargs: Any
    ) -> None:
        build(self, project_name, experiment_name, *args, config=config, **kwargs)
        settings = config if isinstance(config, Mapping) else None
        attach(self, monitor_for("verl", settings, "config", **{"name": experiment_name, **options}))

    built._rlvitals = True  # type: ignore[attr-defined]
    tracking_class.__init__ = built
