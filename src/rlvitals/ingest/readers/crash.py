"""How a console log ends: an exception, an out-of-memory error or a signal after the last step."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlvitals.schema import Event, EventKind

MAX_DETAIL = 200  # characters

_OUT_OF_MEMORY = re.compile(r"out of memory|OutOfMemoryError|oom-kill|Cannot allocate memory|\bOOM\b", re.IGNORECASE)
_SIGNAL = re.compile(
    r"SignalException|got signal|SIG(?:TERM|KILL|HUP|INT|SEGV|ABRT)\b|^Killed$|Segmentation fault|CANCELLED|"
    r"DUE TO (?:TIME LIMIT|PREEMPTION)|KeyboardInterrupt"
)  # fmt: skip
_EXCEPTION = re.compile(r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt)\b(?::|$)")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)")


def crash_events(tail: Sequence[str], *, at_end: bool) -> tuple[Event, ...]:
    """Return the crash that the lines after the last record show, if any; its step is filled in by the caller.

    An exception that was printed and survived is not told from a fatal one by its text: only what stands after the
    last step counts, and only when the last of it is not followed by a normal ending.
    """
    if not at_end:
        return ()
    trace = any(_TRACEBACK.search(line) for line in tail)
    for line in reversed(tail):
        text = line.strip()
        if _OUT_OF_MEMORY.search(text) and (trace or "Error" in text or "kill" in text.lower()):
            return (_crash("out of memory", text),)
        if _SIGNAL.search(text):
            return (_crash("ended by a signal", text),)
        if trace and _EXCEPTION.match(text):
            return (_crash("ended with an exception", text),)
    return (_crash("ended with an exception", "Traceback"),) if trace else ()


def _crash(what: str, line: str) -> Event:
    return Event(EventKind.CRASH, None, f"{what}: {line[:MAX_DETAIL]}")
