"""Alerts that can be trusted: every new or worse fault is told, through every channel, without holding up a step.

    alerts = Alerts.of(load_settings(Path("rlvitals.toml")).alerts, run="qwen3-4b gsm8k")
    monitor = Monitor(config, trainer="TRL", name="qwen3-4b gsm8k", watchers=[alerts])

What is told, and when, is decided by the `Courier` of each channel; what it says, by `message`.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlvitals.check import VERDICT_OF, Action, Outcome
from rlvitals.checks import CHECKS
from rlvitals.errors import InputError, Problem
from rlvitals.live.channels import Channel
from rlvitals.live.courier import Courier, Delivery
from rlvitals.live.delivered import DeliveredFile
from rlvitals.live.message import stop_message
from rlvitals.live.stop import StopRequest
from rlvitals.live.transitions import Kind, Told, Transition, page_of
from rlvitals.live.watcher import Watcher
from rlvitals.settings import AlertSettings

CLOSE_TIMEOUT_S = 10.0  # s that the end of a run waits for alerts on their way (convention)


class Alerts(Watcher):
    """Hands each transition of a monitor to every channel; a channel that is slow or down holds up no other.

    Args:
        run: the run's name, as the monitor has it.
        directory: the monitor's; what each channel told is kept there, so that a restarted process tells what the
            one before could not, and nothing twice.
    """

    def __init__(
        self,
        channels: Sequence[Channel],
        settings: AlertSettings | None = None,
        run: str = "",
        directory: str | Path | None = None,
    ) -> None:
        s = settings or AlertSettings()
        self._run = run
        self._restored: dict[str, Told] | None = None  # what was open at the first look and nobody has told here
        self._reminded = self._closed = False
        folder = None if directory is None else Path(directory)
        self._couriers = tuple(
            Courier(
                channel,
                mildest=Action(s.mildest),
                repeat_s=60.0 * s.repeat_minutes,
                resolved=s.resolved,
                docs=s.docs,
                memory=DeliveredFile(folder, channel.name),
            )
            for channel in channels
        )
        atexit.register(self.close)  # an exception ends training before anybody can close the monitor

    @classmethod
    def of(
        cls,
        settings: AlertSettings,
        environ: Mapping[str, str] | None = None,
        run: str = "",
        directory: str | Path | None = None,
    ) -> Alerts:
        """Return the alerts that rlvitals.toml asks for.

        Args:
            environ: where secrets are read; the environment of the process when None.

        Raises:
            InputError: with every channel that cannot be opened, and why; no secret is in it.
        """
        return cls(_channels(settings, os.environ if environ is None else environ), settings, run, directory)

    def on_transition(self, found: Transition) -> None:
        """Take one change. Returns at once: it runs inside a training step."""
        self._run = found.run
        if self._restored is not None:
            self._restored.pop(found.check, None)
        for courier in self._couriers:
            courier.take(found)

    def on_look(self, step: int, outcomes: Mapping[str, Outcome], open_: Mapping[str, Told]) -> None:
        """Tell what was open before this process began, unless the one before it has: at its second look.

        What opens at a look is told as a transition right after it, so the first look cannot tell the two apart.
        """
        if self._reminded:
            return
        if self._restored is None:
            self._restored = dict(open_)
            return
        self._reminded = True
        for check, told in self._restored.items():
            if check in open_:
                found = _still_open(check, told, step, self._run)
                for courier in self._couriers:
                    courier.remind(found)

    def on_stop(self, request: StopRequest) -> None:
        """Tell that the trainer is asked to stop."""
        for courier in self._couriers:
            courier.note(stop_message(request, self._run))

    def on_close(self) -> None:
        """Send what waits before the run's process ends."""
        self.close()

    def status(self) -> tuple[Delivery, ...]:
        """Return how each channel fares."""
        return tuple(courier.status() for courier in self._couriers)

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> tuple[Delivery, ...]:
        """Send what waits, for at most `timeout_s`, stop, and return how each channel fared.

        A process that ends without this does the same at its exit.
        """
        atexit.unregister(self.close)
        if not self._closed:
            self._closed = True
            for courier in self._couriers:
                courier.end()
            until = time.monotonic() + timeout_s
            for courier in self._couriers:
                courier.close(max(0.0, until - time.monotonic()))
        return self.status()


def _still_open(check_id: str, told: Told, step: int, run: str) -> Transition:
    """Return a fault that a process found open when it began."""
    check = next(c for c in CHECKS if c.id == check_id)
    finding = told.finding
    remedies = check.plan(finding.variant).remedies
    return Transition(
        Kind.OPENED, check.id, check.name, finding, step, run, VERDICT_OF[finding.action], finding.summary,
        remedies[0].text if remedies else "", page_of(check.id, check.name), None, check.id,
    )  # fmt: skip


def _channels(settings: AlertSettings, environ: Mapping[str, str]) -> list[Channel]:
    channels: list[Channel] = []
    problems: list[Problem] = []
    for kind, variable in settings.channels():
        try:
            channels.append(_channel(kind, variable, environ))
        except InputError as error:
            problems.extend(error.problems)
    if problems:
        raise InputError(*problems)
    return channels


def _channel(kind: str, variable: str, environ: Mapping[str, str]) -> Channel:
    """Return one channel; its library is loaded here and nowhere before."""
    if kind == "apprise":
        from rlvitals.live.channels.apprise import AppriseChannel

        return AppriseChannel(variable, environ)
    if kind == "command":
        from rlvitals.live.channels.command import CommandChannel

        return CommandChannel(variable, environ)
    if kind == "trackio":
        from rlvitals.live.channels.trackio import TrackioChannel

        return TrackioChannel()
    if kind == "wandb":
        from rlvitals.live.channels.wandb import WandbChannel

        return WandbChannel()
    from rlvitals.live.channels.mlflow import MlflowChannel

    return MlflowChannel()
