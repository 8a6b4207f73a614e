"""Play one episode through an environment: what replay and solvers run in a worker process. JSON types in and out."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rlvitals.env import Env, Item, Message, Step

MAX_TURNS = 64


def item_as_json(item: Item) -> dict[str, Any]:
    """Return a task as JSON types."""
    return {
        "id": item.id, "messages": [[m.role, m.content] for m in item.messages], "gold": item.gold,
        "family": item.family, "tier": item.tier, "extra": dict(item.extra),
    }  # fmt: skip


def item_from_json(data: Mapping[str, Any]) -> Item:
    """Return the task that `item_as_json` wrote."""
    messages = tuple(Message(role, content) for role, content in data["messages"])
    return Item(data["id"], messages, data["gold"], data["family"], data["tier"], data["extra"])


@functools.cache
def _resolved(target: str) -> Any:
    from rlvitals.worker import resolve

    return resolve(target)


def make_env(target: str) -> Env:
    """Return a fresh environment of `module:class`, or what `module:function` returns."""
    env: Env = _resolved(target)()
    return env


def play(target: str, item: Mapping[str, Any], seed: int, turns: Sequence[str]) -> dict[str, Any]:
    """Replay recorded turns; return reward, ending and a hash of everything that the environment said."""
    env = make_env(target)
    said = list(env.reset(item_from_json(item), seed))
    rewards: dict[str, float] = {}
    step = Step(done=False)
    used = 0
    for text in turns[:MAX_TURNS]:
        step = env.step(text)
        used += 1
        said += step.messages
        for name, value in step.rewards.items():
            rewards[name] = rewards.get(name, 0.0) + float(value)
        if step.done:
            break
    return _result(said, rewards, step, used)


def solve(target: str, solver: str, item: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Let a solver play: `solver(messages) -> text` is asked once per turn with [{"role", "content"}, ...]."""
    env = make_env(target)
    answer = _resolved(solver)
    said = list(env.reset(item_from_json(item), seed))
    rewards: dict[str, float] = {}
    step = Step(done=False)
    used = 0
    while not step.done and used < MAX_TURNS:
        text = str(answer([{"role": m.role, "content": m.content} for m in said]))
        said.append(Message("assistant", text))
        step = env.step(text)
        used += 1
        said += step.messages
        for name, value in step.rewards.items():
            rewards[name] = rewards.get(name, 0.0) + float(value)
    return _result(said, rewards, step, used)


def _result(said: Sequence[Message], rewards: Mapping[str, float], step: Step, used: int) -> dict[str, Any]:
    heard = "\n".join(f"{m.role}\n{m.content}" for m in said if m.role != "assistant")
    total = sum(rewards.values()) if rewards else math.nan
    return {
        "reward": None if math.isnan(total) else total,
        "rewards": dict(rewards),
        "status": None if step.status is None else step.status.value,
        "reason": None if step.reason is None else step.reason.value,
        "done": step.done,
        "turns": used,
        "hash": hashlib.sha256(heard.encode("utf-8", "surrogatepass")).hexdigest()[:16],
    }
