"""trackio: an alert on the run of the training process, in its dashboard and webhook."""

from __future__ import annotations

from typing import Any

from rlvitals.errors import InputError, Problem
from rlvitals.live.channels import NotSent
from rlvitals.live.message import Message, Severity

LEVELS = {Severity.INFO: "INFO", Severity.WARNING: "WARN", Severity.CRITICAL: "ERROR"}


class TrackioChannel:
    """The current trackio run, or one that is given. Raises InputError when trackio is not installed."""

    name = "trackio"

    def __init__(self, run: Any = None) -> None:
        try:
            import trackio
        except ImportError as error:
            hint = "Install it: pip install trackio"
            raise InputError(Problem("alerts through trackio need the package trackio", hint=hint)) from error
        self._trackio: Any = trackio
        self._given = run
        self._run = run

    def prepare(self) -> None:
        """Note the current run: trackio keeps it in a variable that other threads do not see."""
        if self._given is None:
            self._run = self._trackio.context_vars.current_run.get() or self._run

    def send(self, message: Message) -> None:
        """Put the alert on the run. Raises NotSent when there is none."""
        if self._run is None:
            raise NotSent("no trackio run: call trackio.init first")
        level = self._trackio.AlertLevel[LEVELS[message.severity]]
        self._run.alert(title=message.title, text=message.text, level=level)
