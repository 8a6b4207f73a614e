"""Weights & Biases: an alert on the run of the training process, sent on by the user's W&B settings."""

from __future__ import annotations

from typing import Any

from rlvitals.errors import InputError, Problem
from rlvitals.live.channels import NotSent
from rlvitals.live.message import Message, Severity

LEVELS = {Severity.INFO: "INFO", Severity.WARNING: "WARN", Severity.CRITICAL: "ERROR"}
WAIT_S = 1.0  # s between two alerts of one title; how often something is told is decided before


class WandbChannel:
    """The current W&B run, or one that is given. Raises InputError when wandb is not installed."""

    name = "wandb"

    def __init__(self, run: Any = None) -> None:
        try:
            import wandb
        except ImportError as error:
            hint = "Install it: pip install 'rlvitals[wandb]'"
            raise InputError(Problem("alerts through W&B need the package wandb", hint=hint)) from error
        self._wandb: Any = wandb
        self._run = run

    def prepare(self) -> None:
        """Nothing is needed of the training thread: the current run is one of the process."""

    def send(self, message: Message) -> None:
        """Put the alert on the run. Raises NotSent when there is none."""
        run = self._run if self._run is not None else self._wandb.run
        if run is None:
            raise NotSent("no W&B run: call wandb.init first")
        run.alert(message.title, message.text, LEVELS[message.severity], WAIT_S)
