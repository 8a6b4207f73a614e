"""mlx-lm-lora: a training callback, as `mlx_lm.tuner.callbacks.TrainingCallback`.

from rlvitals.live.hooks import mlx_lm_lora
train_grpo(..., training_callback=mlx_lm_lora.callback(directory="vitals"))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlvitals.live.hooks.common import harmless, monitor_for, said
from rlvitals.live.monitor import Monitor

PREFIX = "train_"  # which the callback's keys have and the console's do not


class Vitals:
    """Has the methods of mlx-lm's TrainingCallback; they are called by name, without a base class."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor

    def on_train_loss_report(self, train_info: Mapping[str, Any]) -> None:
        """Take the metrics of a report."""
        with harmless(self.monitor, "mlx-lm-lora"):
            row = {key.removeprefix(PREFIX): value for key, value in train_info.items()}
            self.monitor.log(train_info["iteration"], row)
        request = self.monitor.stop_due()
        if request is not None:
            said(request, "this run should stop; mlx-lm-lora has no switch for it")

    def on_val_loss_report(self, val_info: Mapping[str, Any]) -> None:
        """A validation loss is no held-out score."""


def callback(config: Mapping[str, Any] | None = None, **options: Any) -> Vitals:
    """Return the callback with a monitor of its own; `options` are those of Monitor."""
    return Vitals(monitor_for("mlx-lm-lora", config, "config", **options))
