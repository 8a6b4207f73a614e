"""Where alerts go: one file per channel. A channel sends one message or says why it could not."""

from __future__ import annotations

from typing import Protocol

from rlvitals.live.message import Message


class NotSent(Exception):
    """A message that did not get through; the text is shown to users and must hold no secret."""


class Channel(Protocol):
    """One way out. `name` is shown to users and holds no secret."""

    name: str

    def prepare(self) -> None:
        """Note what only the training thread knows, such as its tracker's run. Cheap; never raises."""

    def send(self, message: Message) -> None:
        """Send one message from the courier's thread, within a bounded time. Raises NotSent."""
