"""NeMo-RL: a logger with the methods of `LoggerInterface`, appended to the loggers of its `Logger`.

from rlvitals.live.hooks import nemo_rl
monitor = nemo_rl.watch(logger, master_config, directory="vitals")   # before grpo_train(..., logger, ...)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlvitals.live.hooks.common import harmless, monitor_for, prefixed, said
from rlvitals.live.monitor import Monitor

PREFIXES = ("train", "validation")  # others (timing/train, ray ...) are no metrics of the run


class Vitals:
    """Has every method of nemo_rl.utils.logger.LoggerInterface; it is called through a list and needs no base class."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor

    def log_metrics(
        self,
        metrics: Mapping[str, Any],
        step: int,
        prefix: str | None = "",
        step_metric: str | None = None,
        step_finished: bool = False,
    ) -> None:
        """Take the metrics of a step under prefix/key; those with a step axis of their own (hardware) are left out."""
        if step_metric is None and (prefix or "").split("/")[0] in ("", *PREFIXES):
            with harmless(self.monitor, "NeMo-RL"):
                self.monitor.log(step, prefixed(metrics, prefix or ""))
            request = self.monitor.stop_due()
            if request is not None:
                said(request, "this run should stop; NeMo-RL has no switch for it")

    def log_hyperparams(self, params: Mapping[str, Any]) -> None:
        """Settings are read by `watch`."""

    def log_histogram(self, histogram: list[Any], step: int, name: str) -> None:
        """Histograms are not used."""

    def log_plot(self, figure: Any, step: int, name: str) -> None:
        """Plots are not used."""


def watch(logger: Any, config: Mapping[str, Any] | None = None, **options: Any) -> Monitor:
    """Append the monitor to a NeMo-RL Logger; return it. `options` are those of Monitor."""
    monitor = monitor_for("NeMo-RL", config, "config", **options)
    logger.loggers.append(Vitals(monitor))
    return monitor
