"""prime-rl: a monitor for its list `prime_rl.monitors.MONITORS`, in the trainer and the orchestrator.

    from rlvitals.live.hooks import prime_rl
    prime_rl.watch(prime_rl_monitors.MONITORS, directory="vitals")   # after prime_rl.monitors.setup(...)

Trainer and orchestrator are two processes with half of the metrics each: give each its own directory. For both halves
in one diagnosis follow the run's files: `rlvitals check --follow RUN`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rlvitals.env import StopReason
from rlvitals.live.hooks.common import harmless, monitor_for, said
from rlvitals.live.monitor import Monitor

MAX_WAITING = 100_000  # rollouts of one step that are collected (convention)


class Vitals:
    """Has the methods of prime_rl.monitors.base.Monitor; it is called through a list and needs no base class."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self._waiting: dict[int, list[dict[str, Any]]] = {}

    async def init(self, **_: Any) -> None:
        """Nothing to begin."""

    async def log(self, data: Any, step: int, kind: str = "train", subset: str = "effective") -> None:
        """Take scalar metrics, or episodes."""
        if isinstance(data, Mapping):
            await self.log_metrics(data, step)
        else:
            await self.log_episodes(data if isinstance(data, list) else [data], step, kind, subset)

    async def log_metrics(self, metrics: Mapping[str, Any], step: int) -> None:
        """Take the metrics of a step."""
        self.monitor.log(step, metrics)
        request = self.monitor.stop_due()
        if request is not None:
            said(request, "this run should stop; prime-rl has no switch for it")

    async def log_episodes(self, episodes: Iterable[Any], step: int, kind: str, subset: str) -> None:
        """Collect the training episodes, which come one by one, and take them when their step's batch is complete.

        All of them count, not the effective ones alone: those lack the groups without a learning signal.
        """
        if kind != "train":
            return
        with harmless(self.monitor, "prime-rl"):
            if subset == "all":
                rows = self._waiting.setdefault(step, [])
                rows += rollouts(episodes)[: MAX_WAITING - len(rows)]
            else:
                self.monitor.log_rollouts(step, self._waiting.pop(step, []) or rollouts(episodes))
                self._waiting = {at: rows for at, rows in self._waiting.items() if at > step}

    async def finalize(self) -> None:
        """End of the run."""
        self.monitor.close()


def rollouts(episodes: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the traces of trained agents as rollouts; what a trace does not have is left out."""
    return [
        {
            "group": str(getattr(getattr(episode, "group", None), "id", getattr(episode, "id", i))),
            "family": str(getattr(getattr(episode, "env", None), "id", "")) or None,
            "reward": getattr(trace, "reward", None),
            "reward_parts": getattr(trace, "rewards", None),
            "tokens": getattr(trace, "num_output_tokens", None),
            "stop_reason": StopReason.BUDGET.value if getattr(trace, "is_truncated", False) else None,
        }
        for i, episode in enumerate(episodes)
        for trace in getattr(episode, "traces", ())
        if getattr(getattr(trace, "agent", None), "trainable", True)
    ]


def watch(monitors: list[Any], config: Mapping[str, Any] | None = None, **options: Any) -> Monitor:
    """Append the monitor to prime-rl's list; return it. `options` are those of Monitor."""
    monitor = monitor_for("prime-rl", config, "config", **options)
    monitors.append(Vitals(monitor))
    return monitor
