"""How many rollouts of a step have their text scored: as many as a small share of the time between steps pays for."""

from __future__ import annotations

import math
import time

TEXT_SHARE = 0.01  # share of the time between steps that text scoring may take (convention)
FIRST = 8  # texts of the first step, when nothing is known of the time between steps
SMOOTHING = 0.2  # weight of the newest cost per text


class Pace:
    """Chooses the sample of each step.

    Args:
        most: texts per step at most; reached when steps are far apart.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._last = math.nan
        self._cost = math.nan  # seconds per text, smoothed

    def texts(self) -> int:
        """Return how many texts the coming step may have scored."""
        now = time.perf_counter()
        between, self._last = now - self._last, now
        if math.isnan(between) or math.isnan(self._cost):
            return min(FIRST, self.most)
        return max(0, min(self.most, int(TEXT_SHARE * max(between, 0.0) / max(self._cost, 1e-9))))

    def spent(self, begin: float, texts: int) -> None:
        """Learn from a step: `begin` of its scoring as time.perf_counter gives it."""
        if texts < 1:
            self._cost *= 0.99  # a machine that was busy once gets another chance
            return
        cost = max(time.perf_counter() - begin, 0.0) / texts
        self._cost = cost if math.isnan(self._cost) else (1 - SMOOTHING) * self._cost + SMOOTHING * cost
