"""Environments with known faults, played in worker processes."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence

from rlvitals.env import Item, Message, Step, StopReason, VerifierStatus


class Sums:
    """One turn: the last word must be the gold answer."""

    version = "1"

    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        self.item, self.seed = item, seed
        return item.messages

    def step(self, text: str) -> Step:
        right = text.split()[-1:] == [self.item.gold]
        status = VerifierStatus.RIGHT if right else VerifierStatus.WRONG
        return Step((), {"correct": float(right)}, str(right), status, True, StopReason.ENV)


class Noisy(Sums):
    """The reward depends on the process."""

    def step(self, text: str) -> Step:
        noise = random.Random(os.getpid()).random()
        return Step((), {"correct": noise}, "", None, True, StopReason.ENV)


class Crashing(Sums):
    def step(self, text: str) -> Step:
        raise RuntimeError("the tool server is gone")


class Hanging(Sums):
    def step(self, text: str) -> Step:
        time.sleep(60)
        return Step()


def solve(messages: Sequence[dict[str, str]]) -> str:
    """Solve sums, but not those of tier 3."""
    words = messages[-1]["content"].removesuffix("?").split()
    return "pass" if "hard" in words else str(int(words[2]) + int(words[4]))
