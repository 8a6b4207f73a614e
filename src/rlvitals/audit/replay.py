"""Replay episodes from their seeds, each in a process of its own, and compare with the log and with a second replay."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlvitals.audit import episode
from rlvitals.audit.common import exact_share, made
from rlvitals.audit.rows import Row
from rlvitals.auditresults import MAX_NAMED, Replay, ReplayFault, ReplayFinding
from rlvitals.env import Item
from rlvitals.errors import InputError, Problem
from rlvitals.stats import median
from rlvitals.worker import Answer, Worker

PICKS = ("longest", "crashed", "top", "off-group")
CRASHED = frozenset({"error", "crash", "crashed", "exception"})
CUT = frozenset({"budget", "length", "max_tokens", "truncated", "truncation", "max_turns", "timeout_budget"})
HUNG = frozenset({"timeout", "timed out", "hang"})
CLOSE = 1e-6  # rewards that differ by less are one: logs round


@dataclass(frozen=True, slots=True)
class Played:
    """One episode with its two replays."""

    row: Row
    first: Answer
    second: Answer


def pick(rows: Sequence[Row], picks: Sequence[str], n: int) -> tuple[Row, ...]:
    """Return at most n outlier episodes, the kinds in turn.

    longest: most turns, then text; crashed: by their stop reason, or without a reward; top: the highest reward;
    off-group: reward far from the median of its group.
    """
    medians = _group_medians(rows)
    keys: dict[str, Callable[[Row], float]] = {
        "longest": lambda r: len(r.turns) * 1e9 + len(r.completion or ""),
        "crashed": lambda r: 1.0 if r.stop.lower() in CRASHED | HUNG or math.isnan(r.reward) else -1.0,
        "top": lambda r: r.reward if math.isfinite(r.reward) else -math.inf,
        "off-group": lambda r: abs(r.reward - medians.get((r.step, r.group), math.nan)) if r.group else math.nan,
    }
    queues = []
    for name in picks:
        ranked = [(keys[name](r), i) for i, r in enumerate(rows)]
        kept = [(v, i) for v, i in ranked if math.isfinite(v) and (v > 0 or name in ("longest", "top"))]
        queues.append([i for _, i in sorted(kept, key=lambda pair: (-pair[0], pair[1]))])
    chosen: dict[int, None] = {}
    depth = 0
    while len(chosen) < n and any(depth < len(q) for q in queues):
        for q in queues:
            if depth < len(q) and len(chosen) < n:
                chosen.setdefault(q[depth])
        depth += 1
    return tuple(rows[i] for i in chosen)


def _group_medians(rows: Sequence[Row]) -> Mapping[tuple[int | None, str], float]:
    import numpy as np

    groups: dict[tuple[int | None, str], list[float]] = {}
    for r in rows:
        if r.group and math.isfinite(r.reward):
            groups.setdefault((r.step, r.group), []).append(r.reward)
    return {k: median(np.array(v)) for k, v in groups.items()}


def replay(
    target: str,
    rows: Sequence[Row],
    *,
    tasks: Mapping[str, Item] | None = None,
    seconds: float = 60.0,
    memory_mb: int = 2048,
    sources: Sequence[str] = (),
) -> Replay:
    """Replay episodes twice through `module:class` and return what differs.

    Args:
        rows: the episodes, already chosen; one without seed, turns or task is skipped and counted.
        tasks: prompt id -> task, where the rows do not hold it.

    Raises InputError when none can be replayed or the environment can't be loaded.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    usable = [
        (r, item) for r in rows if (item := _task_of(r, tasks or {})) is not None and r.seed is not None and r.turns
    ]
    if not usable:
        raise InputError(
            Problem("no episode can be replayed", found=f"{len(rows)} episodes",
                    expected="a seed, the turns and the task of each",
                    hint="Say them: --map seed=KEY, --map turns=KEY, --tasks FILE")
        )  # fmt: skip
    played = [Played(r, *(_play(target, item, r, seconds, memory_mb) for _ in range(2))) for r, item in usable]
    return conclude(target, played, len(rows) - len(usable), sources)


def _task_of(row: Row, tasks: Mapping[str, Item]) -> Item | None:
    return tasks.get(row.task, row.item() if row.messages else None)


def _play(target: str, item: Item, row: Row, seconds: float, memory_mb: int) -> Answer:
    """Play one episode in a process that ends with it."""
    with Worker(f"{episode.__name__}:play", seconds, memory_mb) as worker:
        return worker.call(target, episode.item_as_json(item), row.seed, list(row.turns))


def conclude(target: str, played: Sequence[Played], skipped: int, sources: Sequence[str] = ()) -> Replay:
    """Sort what the replays showed into findings; an episode counts for the gravest one."""
    kinds: dict[ReplayFault, list[str]] = {fault: [] for fault in ReplayFault}
    same = 0
    for p in played:
        found = judge(p)
        if found is None:
            same += 1
        else:
            kinds[found[0]].append(f"{p.row.name}: {found[1]}")
    words = {
        ReplayFault.NON_DETERMINISTIC: "came out differently in two replays from the same seed",
        ReplayFault.NOT_REPRODUCED: "came out alike in two replays, and not as logged",
        ReplayFault.CRASH_AS_FAILURE: "crash when replayed, and were logged as a failure of the policy",
        ReplayFault.HANG_AS_TRUNCATION: "hang when replayed, and were logged as truncated",
    }
    findings = tuple(
        ReplayFinding(fault, f"{len(names)} of {len(played)} episodes {words[fault]}",
                      exact_share(len(names), len(played)),
                      tuple(names[:MAX_NAMED]))
        for fault, names in kinds.items()
        if names
    )  # fmt: skip
    return Replay(made(target, sources), len(played), skipped, same, findings)


def judge(p: Played) -> tuple[ReplayFault, str] | None:
    """Return what an episode's replays show beside the log, None when all agree."""
    row, first, second = p.row, p.first, p.second
    stop = row.stop.lower()
    if first.timed_out and second.timed_out:
        if stop in HUNG:
            return None
        return (
            ReplayFault.HANG_AS_TRUNCATION,
            f"no answer within {first.seconds:.3g} s, logged as {row.stop or 'ended'}",
        )
    if not first.ok and not second.ok:
        if stop in CRASHED | HUNG or math.isnan(row.reward):
            return None
        return ReplayFault.CRASH_AS_FAILURE, f"{first.error[:120]}; logged with reward {row.reward:g}"
    if first.ok != second.ok:
        return (
            ReplayFault.NON_DETERMINISTIC,
            f"one replay ended, the other did not: {(first.error or second.error)[:120]}",
        )
    differs = _difference(first.value, second.value)
    if differs:
        return ReplayFault.NON_DETERMINISTIC, differs
    logged = _against_log(row, first.value)
    return (ReplayFault.NOT_REPRODUCED, logged) if logged else None


def _difference(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    names = {"reward": "reward", "reason": "ending", "status": "verdict", "turns": "turns", "hash": "observations"}
    parts = [f"{names[k]} {a.get(k)} and {b.get(k)}" for k in names if a.get(k) != b.get(k)]
    return ", ".join(parts)


def _against_log(row: Row, value: Mapping[str, Any]) -> str:
    parts = []
    reward = value.get("reward")
    if math.isfinite(row.reward) and (reward is None or abs(reward - row.reward) > CLOSE):
        parts.append(f"reward {row.reward:g} logged, {'none' if reward is None else f'{reward:g}'} replayed")
    reason = value.get("reason")
    if row.stop and reason is not None and reason != row.stop.lower():
        parts.append(f"ending {row.stop} logged, {reason} replayed")
    if row.hash and row.hash != value.get("hash"):
        parts.append("other observations than logged")
    return ", ".join(parts)
