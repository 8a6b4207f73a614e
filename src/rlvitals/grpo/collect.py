"""Rollouts: each trajectory plays its own environment, turn by turn, all of them sampled together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rlvitals.env import Env, Item, Message, Step, StopReason, VerifierStatus
from rlvitals.grpo.chat import added_ids, decoded, prompt_ids
from rlvitals.grpo.interrupt import cut_short
from rlvitals.grpo.judging import judge, started
from rlvitals.grpo.rewards.plan import Completion
from rlvitals.grpo.rollout import Generated, Sampler, Sampling, Trajectory, seed_of
from rlvitals.grpo.tasks.base import Task


class _Play:
    """One trajectory under way: the environment, the conversation so far and what was said."""

    def __init__(self, trajectory: Trajectory, env: Env, messages: Sequence[Message]) -> None:
        self.trajectory, self.env = trajectory, env
        self.history = list(messages)
        self.said: list[str] = []
        self.given: dict[str, float] = {}
        self.seconds = 0.0
        self.done = False


def collect(
    task: Task, items: Sequence[Item], group_size: int, sampler: Sampler, tokenizer: Any, sampling: Sampling,
    seed: int, *, first_group: int = 0,
) -> list[Trajectory]:  # fmt: skip
    """Return group_size finished trajectories per item, group by group.

    sampling.max_tokens is the budget of a whole trajectory. The same items, seed and weights give the same ones. What
    goes wrong in an environment is recorded in its trajectory (status error, reward NaN), never raised. When the run
    was asked to stop meanwhile they may be incomplete (`interrupt.cut_short`), and the step is to be abandoned.
    """
    known: dict[tuple[Message, ...], tuple[int, ...]] = {}  # the rollouts of a group share their prompt
    plays = [
        _start(task, item, first_group + g, k, seed_of(seed, first_group + g, k), tokenizer, known)
        for g, item in enumerate(items)
        for k in range(group_size)
    ]
    for turn in range(task.max_turns):
        going = [p for p in plays if not p.done]
        if not going or cut_short():
            break
        _turn(going, turn, task, sampler, tokenizer, sampling)
    for play in plays:
        _finish(play, task, sampling.max_tokens)
    return [p.trajectory for p in plays]


def _start(
    task: Task, item: Item, group: int, index: int, seed: int, tokenizer: Any,
    known: dict[tuple[Message, ...], tuple[int, ...]],
) -> _Play:  # fmt: skip
    # every rollout of a group starts from the same state: the seed of the environment is the item's
    env, messages = started(task.new_env, item, seed_of("env", item.id))
    shown = "\n".join(m.content for m in messages)
    if messages not in known:
        known[messages] = tuple(prompt_ids(tokenizer, messages))
    return _Play(Trajectory(item, group, index, seed, known[messages], shown), env, messages)


def _turn(plays: Sequence[_Play], turn: int, task: Task, sampler: Sampler, tokenizer: Any, sampling: Sampling) -> None:
    """Sample one assistant turn of each play and let its environment answer."""
    prompts = [[*p.trajectory.prompt_ids, *p.trajectory.ids] for p in plays]
    seeds = [seed_of(p.trajectory.seed, turn) if turn else p.trajectory.seed for p in plays]
    budgets = [sampling.max_tokens - p.trajectory.tokens for p in plays]
    answers = sampler.generate(prompts, seeds, budgets, sampling)
    for play, made in zip(plays, answers, strict=True):
        _take(play, made)
        text = decoded(tokenizer, made.ids)
        play.said.append(text)
        play.history.append(Message("assistant", text))
    judged = judge([p.env for p in plays], [p.said[-1] for p in plays])
    for play, made, (step, seconds) in zip(plays, answers, judged, strict=True):
        play.seconds += seconds
        play.given.update(step.rewards)
        play.trajectory.status = step.status if step.status is not None else play.trajectory.status
        play.trajectory.raw = step.raw or play.trajectory.raw
        play.trajectory.parsed = step.parsed if step.parsed is not None else play.trajectory.parsed
        budget_gone = not made.ended or sampling.max_tokens <= play.trajectory.tokens
        if step.done or budget_gone or turn + 1 >= task.max_turns:
            play.done = True
            play.trajectory.stop = _reason(step, made, last=turn + 1 >= task.max_turns)
            continue
        between = added_ids(tokenizer, play.history, step.messages)
        play.history += step.messages
        play.trajectory.ids += between
        play.trajectory.counts += [False] * len(between)
        play.trajectory.logp += [0.0] * len(between)


def _take(play: _Play, made: Generated) -> None:
    trajectory = play.trajectory
    trajectory.ids += made.ids
    trajectory.counts += [True] * len(made.ids)
    trajectory.logp += made.logp
    if made.keep_packed is not None:
        trajectory.keep_packed.append(made.keep_packed)
    # of several turns the oldest weights count: lag is a worst case
    trajectory.version = made.version if trajectory.turns == 0 else min(trajectory.version, made.version)
    trajectory.turns += 1


def _reason(step: Step, made: Generated, *, last: bool) -> StopReason:
    """Return why the trajectory ended: the budget comes before what the environment says of a half answer."""
    if step.reason in (StopReason.ERROR, StopReason.TIMEOUT):
        return step.reason
    if not made.ended:
        return StopReason.BUDGET
    if step.reason is not None:
        return step.reason
    return StopReason.ENV if last and not step.done else StopReason.EOS


def _finish(play: _Play, task: Task, budget: int) -> None:
    """Turn what the environment gave and what the text shows into reward parts and their total."""
    trajectory = play.trajectory
    trajectory.text = "\n".join(play.said)
    trajectory.verifier_seconds = play.seconds
    written = [i for i, counts in zip(trajectory.ids, trajectory.counts, strict=True) if counts]
    done = Completion(trajectory.text, written, budget, trajectory.status, trajectory.stop)
    trajectory.parts = task.plan.score(done, play.given)
    if trajectory.status in (VerifierStatus.ERROR, VerifierStatus.TIMEOUT):
        return
    trajectory.reward = task.plan.total(trajectory.parts)
    if not math.isfinite(trajectory.reward):  # a verdict without a reward would be counted nowhere
        lacking = [n for n, v in trajectory.parts.items() if not math.isfinite(v)]
        trajectory.raw = f"the environment gave no finite reward: {', '.join(lacking) or 'their sum'}"
        trajectory.status, trajectory.stop, trajectory.reward = VerifierStatus.ERROR, StopReason.ERROR, math.nan
        trajectory.parts = dict.fromkeys(task.plan.names, math.nan)
