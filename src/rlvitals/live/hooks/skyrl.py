"""SkyRL: a training callback.

    from rlvitals.live.hooks import skyrl
    trainer = RayPPOTrainer(..., callbacks=[skyrl.callback(directory="vitals")])

SkyRL lets a callback ask for a checkpoint and an evaluation but not for the end: a request of `stop_on` saves a
checkpoint and is said in the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlvitals.live.hooks.common import monitor_for, said
from rlvitals.live.monitor import Monitor
from rlvitals.schema import Event, EventKind


class Vitals:
    """Has every event of skyrl.train.utils.callbacks.TrainingCallback, which are called by name: no base is needed."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor

    def on_log(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Take what the trainer is about to log."""
        if callback_input.logs:
            self.monitor.log(callback_input.global_step, callback_input.logs)

    def on_step_end(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Ask for a checkpoint when the run should stop: flags count when they are set here."""
        request = self.monitor.stop_due()
        if request is not None:
            control.should_save = True
            said(request, "asked for a checkpoint, and this run should stop; SkyRL has no switch for it")

    def on_eval_end(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Take the held-out scores."""
        if callback_input.metrics:
            self.monitor.log(callback_input.global_step, callback_input.metrics)

    def on_save(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Note a checkpoint."""
        path = str(callback_input.ckpt_path or "")
        self.monitor.add_event(Event(EventKind.CHECKPOINT, callback_input.global_step, path=path))

    def on_train_end(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """End of the run."""
        self.monitor.close()

    def on_train_start(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Nothing to begin."""

    def on_epoch_start(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Epochs are of no matter."""

    def on_epoch_end(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Epochs are of no matter."""

    def on_step_start(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Nothing is known before a step."""

    def on_eval_start(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Nothing is known before an evaluation."""


def callback(config: Mapping[str, Any] | None = None, **options: Any) -> Vitals:
    """Return the callback with a monitor of its own; `options` are those of Monitor."""
    return Vitals(monitor_for("SkyRL", config, "config", **options))
