"""What is told of a live run as it goes: channels, exporters and pages derive from this, overriding what they need.

A watcher is called in the training process, so it must return at once: anything slow belongs in a thread of its own.
What it raises is counted by the monitor and never reaches training.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlvitals.check import Outcome
from rlvitals.live.stop import StopRequest
from rlvitals.live.transitions import Told, Transition


class Watcher:
    """Receives what the monitor sees; every method does nothing unless overridden."""

    def on_row(self, step: int, values: Mapping[str, float]) -> None:
        """Take the canonical values of one whole step."""

    def on_score(self, name: str, step: int, score: float) -> None:
        """Take one held-out score."""

    def on_look(self, step: int, outcomes: Mapping[str, Outcome], open_: Mapping[str, Told]) -> None:
        """Take what every check said at one look, and the faults that are open after it, by check."""

    def on_transition(self, found: Transition) -> None:
        """Take one change of a fault."""

    def on_stop(self, request: StopRequest) -> None:
        """Take the one request to stop."""

    def on_close(self) -> None:
        """End: the run is over."""
