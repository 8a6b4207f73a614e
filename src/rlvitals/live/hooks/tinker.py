"""tinker-cookbook: a logger with the methods of `ml_log.Logger`, added to its MultiplexLogger.

from rlvitals.live.hooks import tinker
monitor = tinker.watch(ml_logger, directory="vitals")     # ml_logger = ml_log.setup_logging(...)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlvitals.live.hooks.common import monitor_for, said
from rlvitals.live.monitor import Monitor


class Vitals:
    """Has every method of tinker_cookbook.utils.ml_log.Logger; it is called through a list and needs no base class."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor

    store = None  # of rollouts and metrics: only the cookbook's own JSON logger has one

    def log_hparams(self, config: Any) -> None:
        """Settings are given to `watch`."""

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Take the metrics of a step; without a step they belong to no row."""
        if step is None:
            return
        self.monitor.log(step, metrics)
        request = self.monitor.stop_due()
        if request is not None:
            said(request, "this run should stop; tinker-cookbook has no switch for it")

    def log_long_text(self, key: str, text: str) -> None:
        """Texts are not used."""

    def close(self) -> None:
        """End of the run."""
        self.monitor.close()

    def sync(self) -> None:
        """Rows are written as they come."""

    def get_logger_url(self) -> str | None:
        """There is no page elsewhere."""
        return None


def watch(logger: Any, config: Mapping[str, Any] | None = None, **options: Any) -> Monitor:
    """Add the monitor to a MultiplexLogger; return it. `options` are those of Monitor."""
    monitor = monitor_for("tinker-cookbook", config, "config", **options)
    logger.loggers.append(Vitals(monitor))
    return monitor
