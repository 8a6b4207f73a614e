"""SIGTERM and Ctrl-C: the step under way is finished and a checkpoint written; a second one ends at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """Notes the first signal, restores the usual behaviour for the second. Outside the main thread it does nothing.

    Attributes:
        asked: a signal came.
        name: its name.
    """

    def __init__(self) -> None:
        self.asked = False
        self.name = ""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked, self.name = True, signal.Signals(number).name
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
