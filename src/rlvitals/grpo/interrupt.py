"""SIGTERM and Ctrl-C: the step under way is finished and a checkpoint written; a second one ends at once.

A step that waits for verdicts could take minutes to finish. So waiting ends GRACE_S after the signal: the step is then
abandoned, and nothing of it is logged.
"""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

GRACE_S = 2.0  # seconds after the signal in which verdicts are still asked for (convention: most are there by then)


class Abandoned(Exception):
    """The step under way was not finished because the run was asked to stop."""


class Interrupt:
    """Notes the first signal, restores the usual behaviour for the second. Outside the main thread it does nothing.

    Attributes:
        asked: a signal came.
        name: its name; since: when, on the monotonic clock.
        cut: something stopped waiting because of it, so what is under way is incomplete.
    """

    def __init__(self) -> None:
        self.asked = False
        self.name = ""
        self.since = 0.0
        self.cut = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            _active.append(self)
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._restore()
        if self in _active:
            _active.remove(self)

    @property
    def over(self) -> bool:
        """True when whoever waits should stop waiting."""
        return self.asked and time.monotonic() - self.since >= GRACE_S

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked, self.name, self.since = True, signal.Signals(number).name, time.monotonic()
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}


_active: list[Interrupt] = []  # signals are the process's own, so this is too


def give_up() -> bool:
    """Say whether to stop waiting for what is not there yet; who asks and hears yes leaves its work incomplete."""
    if not _active or not _active[-1].over:
        return False
    _active[-1].cut = True
    return True


def cut_short() -> bool:
    """True when something did stop waiting."""
    return bool(_active) and _active[-1].cut
