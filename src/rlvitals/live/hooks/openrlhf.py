"""OpenRLHF: a logger in front of the one that the PPO trainer has, or in its place when it has none.

from rlvitals.live.hooks import openrlhf
monitor = openrlhf.watch(trainer, directory="vitals")     # in the process of the PPOTrainer, before fit()
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlvitals.live.hooks.common import harmless, monitor_for, prefixed, said
from rlvitals.live.monitor import Monitor


class Vitals:
    """Has the methods of OpenRLHF's WandbLogger and TensorboardLogger, and hands every call on to the one behind it."""

    def __init__(self, monitor: Monitor, behind: Any = None) -> None:
        self.monitor = monitor
        self.behind = behind

    def log_train(self, global_step: int, logs_dict: Mapping[str, Any]) -> None:
        """Take the metrics of a step, as trackers show them; the sample text among them is left out."""
        with harmless(self.monitor, "OpenRLHF"):
            self.monitor.log(global_step, prefixed(_numbers(logs_dict), "train"))
        request = self.monitor.stop_due()
        if request is not None:
            said(request, "this run should stop; OpenRLHF has no switch for it")
        if self.behind is not None:
            self.behind.log_train(global_step, logs_dict)

    def log_eval(self, global_step: int, logs_dict: Mapping[str, Any]) -> None:
        """Take the held-out scores of a step."""
        with harmless(self.monitor, "OpenRLHF"):
            self.monitor.log(global_step, prefixed(_numbers(logs_dict), "eval"))
        if self.behind is not None:
            self.behind.log_eval(global_step, logs_dict)

    def close(self) -> None:
        """End of the run."""
        self.monitor.close()
        if self.behind is not None:
            self.behind.close()


def watch(trainer: Any, **options: Any) -> Monitor:
    """Put the monitor in front of a trainer's TensorBoard logger; return it. `options` are those of Monitor."""
    settings = getattr(trainer, "args", None)
    monitor = monitor_for("OpenRLHF", vars(settings) if hasattr(settings, "__dict__") else None, "args", **options)
    trainer.tensorboard_logger = Vitals(monitor, trainer.tensorboard_logger)
    return monitor


def _numbers(logs: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in logs.items() if value is not None and key != "generated_samples"}
