"""Carries alerts through one channel from a thread of its own: nothing is lost silently, nothing blocks a step.

Each check of a run has one slot. A change that comes before the last one was told joins it there, so what waits is
bounded by the number of checks and a full queue cannot arise from one check that flaps. What may wait is only a repeat:
what is new, of another kind, worse, or asks to stop, goes out at once.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from rlvitals.check import SEVERITY, Action
from rlvitals.live.channels import Channel, NotSent
from rlvitals.live.delivered import Delivered, DeliveredFile, Key
from rlvitals.live.message import Message, message
from rlvitals.live.transitions import Kind, Transition

MAX_NOTES = 16  # messages that stand for themselves; there is one per run (convention)
MAX_WAITING = 1024  # slots: over ten runs with every check at once (convention)
FIRST_RETRY_S, LAST_RETRY_S = 1.0, 300.0  # waits after failures: doubling, then every five minutes (convention)
LAST_TRIES = 3  # failures in a row after which the end of a process waits no longer for a channel (convention)
JITTER = 0.2  # of each wait, so that many processes do not come back at the same moment (convention)

NOTE: Key = ("", "")  # stands for a message that is about no check


@dataclass(frozen=True, slots=True)
class Slot:
    """What waits to be told of one check."""

    latest: Transition
    worst: Transition
    changes: int = 1
    attempts: int = 0

    def joined(self, newer: Transition) -> Slot:
        """Return the slot after one more change."""
        worst = newer if newer.kind is not Kind.CLOSED and _level(newer) >= _level(self.worst) else self.worst
        return replace(self, latest=newer, worst=worst, changes=self.changes + 1)


@dataclass(frozen=True, slots=True)
class Delivery:
    """How a channel fares. `error` is the last failure in words that hold no secret."""

    channel: str
    sent: int
    failed: int
    waiting: int
    undelivered: int
    error: str


class Courier:
    """Takes transitions in the training thread and sends them in its own.

    Args:
        mildest: the mildest action that is told.
        repeat_s: s between two messages about one check that say nothing new or worse.
        resolved: also tell that a fault eased or is over.
        docs: address under which docs/ can be read.
        memory: where it is kept what was told, for the process after this one.
        clock: s, monotonic; tests give their own.
    """

    def __init__(
        self,
        channel: Channel,
        *,
        mildest: Action = Action.ADJUST,
        repeat_s: float = 3600.0,
        resolved: bool = True,
        docs: str = "",
        memory: DeliveredFile | None = None,
        clock: Callable[[], float] = time.monotonic,
        first_retry_s: float = FIRST_RETRY_S,
    ) -> None:
        self.channel = channel
        self._mildest = SEVERITY.index(mildest)
        self._repeat_s, self._resolved, self._docs = repeat_s, resolved, docs
        self._clock, self._first_retry_s = clock, first_retry_s
        self._wake = threading.Condition()
        self._waiting: dict[Key, Slot] = {}
        self._memory = memory or DeliveredFile(None, channel.name)
        self._told = self._memory.load(clock())
        self._notes: list[Message] = []
        self._thread: threading.Thread | None = None
        self._closing = False
        self._failures = 0  # in a row
        self._retry_at = 0.0
        self._in_flight: Key | None = None
        self._sent = self._failed = self._undelivered = self._left_out = 0
        self._error = ""

    def take(self, found: Transition) -> None:
        """Note a change and return at once."""
        with contextlib.suppress(Exception):  # a tracker's own fault: then the channel says that it has no run
            self.channel.prepare()
        with self._wake:
            if self._closing or not self._wanted(found):
                return
            key = (found.run, found.check)
            slot = self._waiting.get(key)
            self._waiting[key] = slot.joined(found) if slot is not None else Slot(found, found)
            if len(self._waiting) > MAX_WAITING:
                self._displace()
            self._begin()

    def remind(self, found: Transition) -> None:
        """Note a fault that was open when this process began, unless the one before it has told it."""
        with self._wake:
            told = self._told.get((found.run, found.check))
        if told is None or not told.is_open or _level(found) > told.level:
            self.take(found)

    def note(self, note: Message) -> None:
        """Note a message that stands for itself, such as the one request to stop, and return at once."""
        with contextlib.suppress(Exception):
            self.channel.prepare()
        with self._wake:
            if not self._closing:
                self._notes = [*self._notes, note][-MAX_NOTES:]
                self._begin()

    def status(self) -> Delivery:
        """Return how many messages were sent, failed and wait."""
        with self._wake:
            waiting = len(self._waiting) + len(self._notes) + (self._in_flight is not None)
            return Delivery(self.channel.name, self._sent, self._failed, waiting, self._undelivered, self._error)

    def end(self) -> None:
        """Begin to send everything that waits; nothing is taken from now on."""
        with self._wake:
            if not self._closing:
                self._closing, self._failures, self._retry_at = True, 0, 0.0
            self._wake.notify()

    def close(self, timeout_s: float) -> None:
        """Send everything that waits, for at most `timeout_s` and `LAST_TRIES` failures in a row, and stop."""
        self.end()
        if self._thread is not None:
            self._thread.join(timeout_s)
        with self._wake:
            self._undelivered += len(self._waiting) + len(self._notes) + (self._in_flight is not None)
            self._waiting.clear()
            self._notes = []

    def _begin(self) -> None:
        """Start the thread at the first message, and wake it; called with the lock held."""
        if self._thread is None:
            name = f"rlvitals alerts: {self.channel.name}"
            self._thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._thread.start()
        self._wake.notify()

    def _wanted(self, found: Transition) -> bool:
        """True for what is severe enough, and for the relief of what was told or is about to be."""
        if found.kind in (Kind.OPENED, Kind.WORSENED):
            return _level(found) >= self._mildest
        key = (found.run, found.check)
        told = self._told.get(key)
        return self._resolved and (
            key in self._waiting or key == self._in_flight or (told is not None and told.is_open)
        )

    def _displace(self) -> None:
        """Make room: relief and repeats go first, then the mildest; the newest of equals, so that the first is told."""
        now = self._clock()

        def worth(key: Key) -> tuple[bool, int]:
            slot = self._waiting[key]
            return self._due(key, slot) <= now and slot.latest.kind is not Kind.CLOSED, _level(slot.worst)

        least = min(reversed(self._waiting), key=worth)
        self._left_out += self._waiting.pop(least).changes

    def _due(self, key: Key, slot: Slot) -> float:
        """Return the time from which a slot may be sent; 0 for what must not wait."""
        told = self._told.get(key)
        if told is None or self._closing:
            return 0.0
        if slot.latest.kind in (Kind.CLOSED, Kind.EASED) and told.is_open:
            return 0.0
        is_open = slot.latest.kind is not Kind.CLOSED
        news = _level(slot.latest) > told.level or slot.latest.finding.variant not in told.variants
        if is_open and (news or slot.latest.action is Action.STOP):
            return 0.0
        return told.at_s + self._repeat_s

    def _next(self) -> Key | Message | float | None:
        """Return what to send now, or how many s to wait, or None when there is nothing to wait for."""
        if not self._waiting and not self._notes:
            return None
        now = self._clock()
        if self._retry_at > now:
            return self._retry_at - now
        due = {key: self._due(key, slot) for key, slot in self._waiting.items()}
        ready = [key for key, at in due.items() if at <= now]
        if self._notes and (not ready or self._failures % 2 == 0):  # one that is always refused blocks nothing
            self._in_flight = NOTE
            return self._notes.pop(0)
        if not ready:
            return min(due.values()) - now
        return min(ready, key=lambda k: (self._waiting[k].attempts, -_level(self._waiting[k].worst)))

    def _work(self) -> None:
        while True:
            with self._wake:
                if self._closing and self._failures >= LAST_TRIES:
                    return
                found = self._next()
                if found is None and self._closing:
                    return
                if found is None or isinstance(found, float):
                    self._wake.wait(found)
                    continue
            if isinstance(found, Message):
                self._send_note(found)
            else:
                self._send_slot(found)

    def _send_note(self, note: Message) -> None:
        error = self._send(note)
        with self._wake:
            self._in_flight = None
            if error is None:
                self._succeeded()
                return
            self._failed_with(error)
            self._notes.append(note)

    def _send_slot(self, key: Key) -> None:
        with self._wake:
            slot = self._waiting.pop(key, None)
            if slot is None:  # displaced in between
                return
            self._in_flight, left_out, self._left_out = key, self._left_out, 0
        text = message(slot.latest, slot.worst, changes=slot.changes, left_out=left_out, docs=self._docs)
        error = self._send(text)
        with self._wake:
            if error is None:
                told = self._delivered(key, slot)
            else:
                self._failed_with(error)
                self._left_out += left_out
                self._put_back(key, slot)
        if error is None:
            self._memory.append(key, told)
        with self._wake:
            self._in_flight = None

    def _send(self, text: Message) -> str | None:
        """Send one message; return why it failed, in words without a secret, or None."""
        try:
            self.channel.send(text)
        except NotSent as error:
            return str(error)
        except Exception as error:  # its text may hold an address with a password
            return type(error).__name__
        return None

    def _succeeded(self) -> None:
        self._sent += 1
        self._failures, self._retry_at = 0, 0.0

    def _failed_with(self, error: str) -> None:
        self._failed += 1
        self._error = error
        wait = min(LAST_RETRY_S, self._first_retry_s * 2.0**self._failures)
        self._failures = min(self._failures + 1, 16)
        self._retry_at = self._clock() + wait * (1 + JITTER * (2 * random.random() - 1))

    def _delivered(self, key: Key, slot: Slot) -> Delivered:
        self._succeeded()
        before = self._told.pop(key, None)
        variants = (before.variants if before is not None else frozenset()) | {slot.latest.finding.variant}
        over = slot.latest.kind is Kind.CLOSED
        level = max(_level(slot.worst), before.level if before is not None else 0) if over else _level(slot.latest)
        told = self._told[key] = Delivered(level, variants, not over, self._clock())
        if len(self._told) > 4 * MAX_WAITING:  # what is forgotten counts as new when it comes again
            del self._told[next(iter(self._told))]
        return told

    def _put_back(self, key: Key, slot: Slot) -> None:
        newer, attempts = self._waiting.get(key), slot.attempts + 1
        if newer is None:
            self._waiting[key] = replace(slot, attempts=attempts)
            return
        worst = newer.worst if _level(newer.worst) >= _level(slot.worst) else slot.worst
        self._waiting[key] = Slot(newer.latest, worst, slot.changes + newer.changes, attempts)


def _level(found: Transition) -> int:
    return SEVERITY.index(found.action)
