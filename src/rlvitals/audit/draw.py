"""Draw trajectories for hand scoring: spread over family, reward and stop reason, reproducible from a seed."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rlvitals.audit.rows import Row

BINS = 3  # of the reward: floor, between, full marks


@dataclass(frozen=True, slots=True)
class Drawn:
    """One trajectory to score; `weight` is how many of all rollouts it stands for."""

    row: Row
    stratum: str
    weight: float


def stratum_of(row: Row, low: float, high: float) -> str:
    """Return family, reward level and stop reason as one name."""
    if math.isnan(row.reward):
        level = "no reward"
    elif high <= low:
        level = "one reward"
    else:
        place = (row.reward - low) / (high - low)
        level = "floor" if place < 0.01 else "full" if place > 0.99 else "between"
    return f"{row.family or '-'} / {level} / {row.stop or '-'}"


def draw(rows: Sequence[Row], n: int, seed: int = 0) -> tuple[Drawn, ...]:
    """Return n trajectories, one of each stratum in turn, largest strata first, in an order that tells nothing."""
    rewards = [r.reward for r in rows if math.isfinite(r.reward)]
    low, high = (min(rewards), max(rewards)) if rewards else (0.0, 0.0)
    strata: dict[str, list[Row]] = {}
    for row in rows:
        if row.completion is not None:
            strata.setdefault(stratum_of(row, low, high), []).append(row)
    chance = random.Random(seed)
    names = sorted(strata, key=lambda s: (-len(strata[s]), s))
    shuffled = {s: chance.sample(strata[s], len(strata[s])) for s in names}
    taken: dict[str, int] = dict.fromkeys(names, 0)
    order: list[tuple[str, Row]] = []
    while len(order) < n and any(taken[s] < len(shuffled[s]) for s in names):
        for s in names:
            if len(order) < n and taken[s] < len(shuffled[s]):
                order.append((s, shuffled[s][taken[s]]))
                taken[s] += 1
    out = [Drawn(row, s, len(strata[s]) / taken[s]) for s, row in order]
    chance.shuffle(out)
    return tuple(out)


_SCORE = re.compile(
    r"""(["']?\b(?:score|rewards?|acc|accuracy|correct|is_correct|passed|success|verdict|label)\b["']?\s*[:=]\s*)"""
    r"""("[^"]*"|'[^']*'|[^\s,}\]]+)""",
    re.IGNORECASE,
)
_BARE = re.compile(
    r"\s*[\[(]?\s*[-+]?\d*\.?\d+(?:e[-+]?\d+)?\s*[\])]?\s*"
    r"|\s*(?:true|false|right|wrong|correct|incorrect|yes|no)\s*\.?\s*",
    re.IGNORECASE,
)
HIDDEN = "(hidden until you have scored)"


def blind(raw: str) -> str:
    """Return the verifier's raw output with every score in it hidden."""
    if _BARE.fullmatch(raw):
        return HIDDEN
    return _SCORE.sub(lambda m: m[1] + HIDDEN, raw)
