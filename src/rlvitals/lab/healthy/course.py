"""What the log of a hard case must show, so that it is what its description says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

REWARD, DIVERGENCE, HELD_OUT = "reward_mean", "kl_ref", "eval/heldout"
WINDOW = 10  # steps of a mean (convention)
GAIN = 0.1  # of the held-out score that counts as learning (convention: twice the error of 128 items)
DEAD, SILENT_STEPS = 0.02, 45  # reward below which there is none, and steps of that (measured: Hard healthy runs)
TAKEN_OFF = 0.2  # reward at the end of a run that took off (convention)
GRPO_DIVERGENCE = 0.08  # nats a token, grpo on the embedded task (measured: Hard healthy runs)
HIGH = (2.0, 5.0)  # times that (issue)
FLAT = 0.25  # largest relative change between the middle and the last third (convention)
SOLVED, SOLVED_STEPS = 0.97, 50  # reward and steps in a row (issue)
DIP, BACK = 0.15, 0.05  # reward lost on the way and at the end (convention)

Rows = Sequence[Mapping[str, float]]


def series(rows: Rows, name: str) -> list[tuple[int, float]]:
    """Return (step, value) where a metric was logged with a finite value."""
    found = [(int(r["step"]), r.get(name)) for r in rows]
    return [(step, float(v)) for step, v in found if v is not None and math.isfinite(v)]


def values(rows: Rows, name: str, first: int = 0, last: int = 10**9) -> list[float]:
    """Return the values of a metric from step `first` to step `last`."""
    return [v for step, v in series(rows, name) if first <= step <= last]


def learns(rows: Rows) -> str:
    """Return "" when the held-out score gained, else what it did."""
    held = values(rows, HELD_OUT)
    if len(held) < 2:
        return "no two held-out scores"
    gain = fmean(held[-2:]) - held[0]
    return "" if gain >= GAIN else f"held-out gained {gain:.2f}, less than {GAIN}"


def takes_off_late(rows: Rows) -> str:
    """Return "" when there is next to no reward for 45 steps and a good deal at the end."""
    found = values(rows, REWARD)
    if len(found) <= SILENT_STEPS + WINDOW:
        return f"{len(found)} values of the reward"
    early = max(fmean(found[i : i + WINDOW]) for i in range(SILENT_STEPS - WINDOW + 1))
    if early > DEAD:
        return f"reward reaches {early:.3f} within {SILENT_STEPS} steps, above {DEAD}"
    end = fmean(found[-WINDOW:])
    return "" if end >= TAKEN_OFF else f"reward ends at {end:.2f}, below {TAKEN_OFF}"


def divergence_stays_high(rows: Rows) -> str:
    """Return "" when the divergence is two to five times grpo's and no longer moves, while the run learns."""
    found = values(rows, DIVERGENCE)
    third = len(found) // 3
    if third < WINDOW:
        return f"{len(found)} values of the divergence"
    middle, end = fmean(found[third : 2 * third]), fmean(found[2 * third :])
    low, high = (GRPO_DIVERGENCE * t for t in HIGH)
    if not low <= end <= high:
        return f"divergence ends at {end:.2f} nats, not in {low:.2f} to {high:.2f}"
    change = abs(end / middle - 1)
    return learns(rows) if change <= FLAT else f"divergence moves by {change:.0%} over the last two thirds"


def stays_solved(rows: Rows) -> str:
    """Return "" when the reward, as a mean of 10 steps, holds .97 for 50 steps in a row."""
    found = values(rows, REWARD)
    held = longest = 0
    for at in range(WINDOW, len(found) + 1):
        held = held + 1 if fmean(found[at - WINDOW : at]) >= SOLVED else 0
        longest = max(longest, held)
    return "" if longest >= SOLVED_STEPS else f"reward holds {SOLVED} for {longest} steps, not {SOLVED_STEPS}"


def recovers(rows: Rows, first: int, last: int) -> str:
    """Return "" when the reward falls between two steps and comes back by the end."""
    before, during = values(rows, REWARD, first - WINDOW, first - 1), values(rows, REWARD, first, last)
    end = values(rows, REWARD, last + 1)[-WINDOW:]
    if not (before and during and len(end) == WINDOW):
        return "too short to recover"
    fall, short = fmean(before) - fmean(during), fmean(before) - fmean(end)
    if fall < DIP:
        return f"reward falls by {fall:.2f}, less than {DIP}"
    return learns(rows) if short <= BACK else f"reward ends {short:.2f} below what it was"
