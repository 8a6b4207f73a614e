"""Stretches of neighbouring groups in which every rollout earns one and the same reward.

A worker that fails returns its default for everything it scores, a stretch of the file. How long a stretch chance
makes follows from the order alone: k of N groups tied at a value stand in any order with equal probability. Families
that stand one after the other, as in many dumps, are looked at one by one.
"""

from __future__ import annotations

import math

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import by_label, present, rows_of, shown
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Example, Float64, Int64

LEAST_GROUPS = 8
RARE = -4.0  # log10 of a chance worth an example
CERTAIN = -30.0  # log10 of a probability: smaller ones say no more


def _fold(batch: Batch) -> Sums:
    reward, at = batch.number("reward"), rows_of(batch)
    keep = np.isfinite(reward) & present(batch.text("group"))
    how = {"least": "min", "most": "max", "at": "min"}
    values = {"n": np.ones(batch.rows), "sum": reward, "least": reward, "most": reward, "at": at}
    family = np.where(present(batch.text("family")), batch.text("family"), "")
    return by_label(batch, keep, family, values, how, more=(batch.text("group"),))


def _finish(sums: Sums) -> Series:
    v = sums.values
    if not sums.rows:
        return {}
    order = np.lexsort((v["at"], sums.keys[0]))
    _, family = np.unique(sums.keys[1].astype(str), return_inverse=True)
    family = _apart(np.asarray(sums.keys[0], dtype=np.int64)[order], family[order])
    again = np.lexsort((np.arange(order.size), family, sums.keys[0][order]))
    order, family = order[again], family[again]
    steps = np.asarray(sums.keys[0], dtype=np.int64)[order]
    tied = ((v["least"] == v["most"]) & (v["n"] > 1))[order]
    value, size, mean = v["least"][order], v["n"][order], (v["sum"] / v["n"])[order]
    new = np.concatenate([[True], (steps[1:] != steps[:-1]) | (family[1:] != family[:-1])])
    starts = np.flatnonzero(new)
    found: dict[int, list[tuple[float, float, float]]] = {}
    for begin, end in zip(starts, np.append(starts[1:], steps.size), strict=True):
        part = slice(begin, end)
        found.setdefault(int(steps[begin]), []).append(_longest(tied[part], value[part], size[part], mean[part]))
    table = np.array([(float(s), *_rarest(parts)) for s, parts in found.items()])
    at, able = table[:, 0].astype(np.int64), np.isfinite(table[:, 2])
    return {
        "rollouts/same_streak": (at, table[:, 1]),
        "rollouts/same_streak_log10p": (at[able], table[able, 2]),
        "rollouts/same_streak_value": (at[able], table[able, 3]),
    }


def _apart(steps: Int64, family: Int64) -> Int64:
    """Return the families of groups in file order, 0 for all groups of a step whose families are mixed."""
    out = family.copy()
    for step in np.unique(steps):
        at = np.flatnonzero(steps == step)
        part = family[at]
        if int((part[1:] != part[:-1]).sum()) > 2 * (np.unique(part).size - 1):
            out[at] = 0
    return out


def _rarest(parts: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    """Return the stretch with the smallest chance over the families of a step, its chance times their number."""
    able = [p for p in parts if math.isfinite(p[1])]
    if not able:
        return (0.0, math.nan, math.nan)
    size, chance, value = min(able, key=lambda p: p[1])
    return (size, min(0.0, chance + math.log10(len(able))), value)


def _longest(tied: np.ndarray, value: Float64, size: Float64, mean: Float64) -> tuple[float, float, float]:
    """Return (rollouts of the longest stretch, log10 of its chance, its reward); NaN where order says nothing.

    Of all values the stretch with the smallest chance counts. Groups sorted by reward are left out.
    """
    if tied.size < LEAST_GROUPS:
        return (0.0, math.nan, math.nan)
    best = (0.0, 0.0, math.nan)
    for x in np.unique(value[tied]):
        hit = tied & (value == x)
        k, length, begin = int(hit.sum()), *_run(hit)
        blocks = int((np.diff(np.concatenate([[0], hit.astype(int), [0]])) == 1).sum())
        if k < 2 or k == tied.size:
            continue
        chance = math.nan if blocks == 1 and _sorted(mean) else chance_of(k, tied.size, length)
        if math.isnan(chance):
            return (0.0, math.nan, math.nan)
        if chance < best[1]:
            best = (float(size[begin : begin + length].sum()), chance, float(x))
    return best


def _run(hit: np.ndarray) -> tuple[int, int]:
    """Return (length, begin) of the longest stretch of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], hit.astype(int), [0]])))
    lengths = edges[1::2] - edges[::2]
    i = int(np.argmax(lengths))
    return int(lengths[i]), int(edges[2 * i])


def _sorted(mean: Float64) -> bool:
    """True when the groups stand in order of their mean reward: a sorted dump, which says nothing of the workers."""
    change = np.diff(mean)
    return bool((change >= 0).all() or (change <= 0).all())


def chance_of(k: int, n: int, length: int) -> float:
    """Return log10 P(some stretch of `length` or more) for k of n places in random order, by its upper bound.

    There are n - length + 1 places for such a stretch, each filled with probability C(n - length, k - length) / C(n, k)
    (union bound, exact for stretches longer than half of k).
    """
    if length > k:
        return CERTAIN
    fill = math.lgamma(n - length + 1) - math.lgamma(k - length + 1) - (math.lgamma(n + 1) - math.lgamma(k + 1))
    return float(min(0.0, max(CERTAIN, (math.log(n - length + 1) + fill) / math.log(10))))


def _examples(batch: Batch, sums: Sums) -> tuple[Example, ...]:
    """Show the middle of the longest stretch of each step, where it is surely none of chance."""
    sums = _fold(batch)
    streaks = _finish(sums)
    line = streaks.get("rollouts/same_streak_log10p")
    out: list[Example] = []
    if line is None:
        return ()
    for step in line[0][line[1] < RARE]:
        rows = np.flatnonzero(batch.integer("step") == step)
        values = streaks["rollouts/same_streak_value"]
        x = values[1][values[0] == step]
        hits = rows[batch.number("reward")[rows] == x[0]]
        out += [shown(batch, int(i), "streaks") for i in hits[:3]]
    return tuple(out)


FACT = Fact(
    name="streaks",
    reads=("group", "reward"),
    fold=_fold,
    finish=_finish,
    metrics=("rollouts/same_streak", "rollouts/same_streak_log10p", "rollouts/same_streak_value"),
    examples=_examples,
    also=("family",),
)
