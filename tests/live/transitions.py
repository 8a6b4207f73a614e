"""Transitions and a channel for the tests of alerts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rlvitals.check import Action, Confidence, Evidence, Finding, Onset, SourceKind, Threshold, Verdict
from rlvitals.live.channels import NotSent
from rlvitals.live.message import Message
from rlvitals.live.transitions import Kind, Transition, page_of
from rlvitals.schema import Example

TIED = Threshold("tied_share", 0.6, "fraction", SourceKind.MEASURED, "docs/measurements.md: Tied groups")
NAMES = {"S001": "zero-variance-groups", "E001": "entropy-collapse", "D001": "non-finite-values"}


def finding(action: Action = Action.FIX, variant: str = "", summary: str = "", excerpt: str = "") -> Finding:
    shown = (Example("looping", 100, "7", 3, 1.0, excerpt),) if excerpt else ()
    seen = Evidence("zero_variance_frac", "text", 0.92, "fraction", (100, 140), TIED, ">", 0.3, shown)
    summary = summary or "92% of the groups are tied, from 30%"
    return Finding(summary, action, Confidence.HIGH, Onset(90, 110), (seen,), variant)


def changed(
    kind: Kind = Kind.OPENED,
    action: Action = Action.FIX,
    *,
    check: str = "S001",
    step: int = 140,
    run: str = "run a",
    variant: str = "",
    found: Finding | None = None,
) -> Transition:
    name = NAMES.get(check, "some-fault")
    first = "" if kind is Kind.CLOSED else "Mix in easier prompts"
    return Transition(
        kind, check, name, found or finding(action, variant), step, run, Verdict.ACT, "headline", first,
        page_of(check, name), None if kind is Kind.OPENED else Action.WATCH, check,
    )  # fmt: skip


class Recorder:
    """A channel that keeps what it was sent; fails while `down`, waits while `gate` is not set."""

    name = "recorder"

    def __init__(self, down: int = 0) -> None:
        self.messages: list[Message] = []
        self.down = down
        self.gate = threading.Event()
        self.gate.set()
        self.threads: set[int] = set()

    def prepare(self) -> None:
        pass

    def send(self, message: Message) -> None:
        self.gate.wait()
        self.threads.add(threading.get_ident())
        if self.down > 0:
            self.down -= 1
            raise NotSent("the service is down")
        self.messages.append(message)

    @property
    def titles(self) -> list[str]:
        return [m.title for m in self.messages]


def eventually(condition: Callable[[], bool], timeout_s: float = 5.0) -> None:
    """Wait until a condition holds; fail when it does not in time."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.005)
