"""Score sampled completions, and let a solver try the tasks: through a reward function or through an environment."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from rlvitals.audit import episode
from rlvitals.audit.calling import Ask
from rlvitals.audit.probe import LIMITS, Limits, Verifier
from rlvitals.audit.rows import Row
from rlvitals.env import Item, Message, Step, VerifierStatus
from rlvitals.errors import InputError, Problem
from rlvitals.worker import Call, Worker


def score_with_reward(
    target: str, rows: Sequence[Row], *, calling: str = "", gold_key: str = "answer", limits: Limits = LIMITS
) -> tuple[Row, ...]:
    """Return the rows with their rewards, scored in a worker; a verifier that fails leaves NaN, never 0."""
    verifier = Verifier(target, limits, calling=calling, gold_key=gold_key)
    try:
        heard = verifier.ask([Ask.of(r.item(), r.completion or "") for r in rows])
        if heard and all(h.value is None for h in heard):  # perhaps it wants messages
            verifier.way = replace(verifier.way, chat=not verifier.way.chat)
            heard = verifier.ask([Ask.of(r.item(), r.completion or "") for r in rows])
    finally:
        verifier.close()
    if heard and all(h.value is None for h in heard):
        raise InputError(
            Problem("the verifier gave no reward at all", target, heard[0].error or "None for every completion")
        )
    return tuple(replace(r, reward=math.nan if h.value is None else h.value) for r, h in zip(rows, heard, strict=True))


def score_with_env(
    target: str, rows: Sequence[Row], *, seconds: float = 60.0, memory_mb: int = 2048
) -> tuple[Row, ...]:
    """Return the rows with reward and verdict of their one turn, played through `module:class` in a worker."""
    _importable()
    with Worker(f"{episode.__name__}:play", seconds, memory_mb) as worker:
        calls: list[Call] = [((target, episode.item_as_json(r.item()), 0, [r.completion or ""]), {}) for r in rows]
        answers = worker.call_many(calls)
    failed = next((a.error for a in answers if not a.ok), "")
    if answers and not any(a.ok for a in answers):
        raise InputError(Problem("the environment failed on every completion", target, failed))
    out = []
    for row, answer in zip(rows, answers, strict=True):
        if not answer.ok or answer.value["reward"] is None:
            out.append(row)
            continue
        status = answer.value["status"]
        judged = status in (VerifierStatus.RIGHT, VerifierStatus.WRONG, VerifierStatus.NO_PARSE)
        correct = float(status == VerifierStatus.RIGHT) if judged else math.nan
        reward = math.nan if status in (VerifierStatus.ERROR, VerifierStatus.TIMEOUT) else answer.value["reward"]
        out.append(replace(row, reward=reward, correct=correct))
    return tuple(out)


def try_solver(
    solver: str, target: str, items: Sequence[Item], *, seconds: float = 60.0, memory_mb: int = 2048, full: float = 1.0
) -> dict[str, bool]:
    """Return task id -> solved, for a scripted solver `module:function` playing through `module:class`."""
    _importable()
    with Worker(f"{episode.__name__}:solve", seconds, memory_mb) as worker:
        answers = worker.call_many([((target, solver, episode.item_as_json(i), 0), {}) for i in items])
    if answers and not any(a.ok for a in answers):
        raise InputError(Problem("the solver failed on every task", solver, answers[0].error))
    return {
        i.id: a.ok and solved(a.value["status"], a.value["reward"], full) for i, a in zip(items, answers, strict=True)
    }


def solved(status: str | None, reward: float | None, full: float) -> bool:
    """Return True for a verdict of right, or without a verdict for full marks."""
    return status == VerifierStatus.RIGHT if status is not None else reward is not None and reward >= full


def try_by_hand(
    target: str, items: Sequence[Item], ask: Callable[[Sequence[Message]], str | None], *, full: float = 1.0
) -> dict[str, bool]:
    """Return task id -> solved, for a person; `ask` shows the new messages and returns a turn, None to stop."""
    _importable()
    out: dict[str, bool] = {}
    for item in items:
        env = episode.make_env(target)
        fresh: tuple[Message, ...] = tuple(env.reset(item, 0))
        total, step = 0.0, Step(done=False)
        for _ in range(episode.MAX_TURNS):
            text = ask(fresh)
            if text is None:
                return out
            step = env.step(text)
            total += sum(step.rewards.values())
            fresh = tuple(step.messages)
            if step.done:
                break
        out[item.id] = solved(None if step.status is None else step.status.value, total, full)
    return out


def _importable() -> None:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
