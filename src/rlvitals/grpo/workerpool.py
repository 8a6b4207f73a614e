"""A few workers for one function, so that an answer that hangs holds up its own worker and not all the others."""

from __future__ import annotations

import os
import queue

from rlvitals.worker import Answer, Worker

FEWEST, MOST = 2, 4  # workers of one process: one that hangs leaves another; each holds its libraries (convention)


def workers_here() -> int:
    """Return how many verdicts this process asks for at a time: its share of the CPUs, 2 to 4."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(FEWEST, min(MOST, usable // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))


class Workers:
    """Workers that call one function; a call goes to one that is free and waits for it where none is.

    Args:
        target, seconds, memory_mb: as of `Worker`; the limits are those of one call.
        count: workers; None takes `workers_here`. All but the first start when they are needed.

    Calls may come from several threads.
    """

    def __init__(self, target: str, seconds: float = 5.0, memory_mb: int = 1024, count: int | None = None) -> None:
        self._all = [Worker(target, seconds, memory_mb) for _ in range(count or workers_here())]
        self._free: queue.LifoQueue[Worker] = queue.LifoQueue()  # last in, first out: one after the other, one worker
        for worker in reversed(self._all):
            self._free.put(worker)

    @property
    def restarts(self) -> int:
        """Times that a process was stopped or died."""
        return sum(w.restarts for w in self._all)

    def start(self) -> None:
        """Start the first worker now. Raises InputError when the function cannot be loaded."""
        self._all[0].start()

    def call(self, *args: object, **kwargs: object) -> Answer:
        """Call the function once."""
        worker = self._free.get()
        try:
            return worker.call(*args, **kwargs)
        finally:
            self._free.put(worker)

    def close(self) -> None:
        """End the processes; a later call starts them again."""
        for worker in self._all:
            worker.close()
