"""AReaL: what its StatsLogger commits.

from rlvitals.live.hooks import areal
monitor = areal.watch(trainer.stats_logger, directory="vitals")
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from rlvitals.live.hooks.common import harmless, monitor_for, said
from rlvitals.live.monitor import Monitor


def watch(stats_logger: Any, config: Mapping[str, Any] | None = None, **options: Any) -> Monitor:
    """Listen to the commits of a StatsLogger; return the monitor. `options` are those of Monitor."""
    monitor = monitor_for("AReaL", config, "config", **options)
    commit = stats_logger.commit

    @functools.wraps(commit)
    def heard(epoch: int, step: int, global_step: int, data: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Any:
        with harmless(monitor, "AReaL"):
            for item in [data] if isinstance(data, Mapping) else data:  # minibatches of a step: the last value wins
                monitor.log(global_step, item)
        request = monitor.stop_due()
        if request is not None:
            said(request, "this run should stop; AReaL has no switch for it")
        return commit(epoch, step, global_step, data)

    stats_logger.commit = heard
    return monitor
