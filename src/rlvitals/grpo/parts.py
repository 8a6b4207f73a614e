"""Parts: the pieces of the loop, each one replaceable where it stands.

`loop.train(config, parts)` calls nothing but these. The default parts are the right ones; a lab that studies a fault
replaces the one piece in which the fault happens in life, and leaves the rest alone:

    replace(Parts(), advantage=without_centring)           # a wrong baseline
    replace(Parts(), sampler=LaggedSampler, sync=rarely)   # stale weights in the sampler
    replace(Parts(), task=with_broken_verifier)            # held_out stays the true task
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rlvitals.env import Item
from rlvitals.grpo.advantages import advantage_B
from rlvitals.grpo.collect import collect
from rlvitals.grpo.config import Config
from rlvitals.grpo.credit import AdvantageOf
from rlvitals.grpo.models import Policy as Loaded
from rlvitals.grpo.models import load_policy
from rlvitals.grpo.packing import pack
from rlvitals.grpo.recipes import Recipe, policy_loss
from rlvitals.grpo.reference import Reference
from rlvitals.grpo.rollout import Sampler, Sampling, Trajectory
from rlvitals.grpo.sampling import LocalSampler
from rlvitals.grpo.score import Policy, score
from rlvitals.grpo.tasks.base import Task
from rlvitals.grpo.tasks.load import load_task
from rlvitals.grpo.update import LossOf, StepData, Trainer, UpdateStats, update

Row = Mapping[str, float]

SMALL = 10_000_000  # weights below which a model counts as small (convention)


def settle(config: Config) -> None:
    """Prepare this process for a run of its own: one thread for small models, no progress bars of transformers.

    Their matrices are too small to share: on a busy machine two threads wait for each other far longer than
    one works. One thread also makes a resume exact to the bit.
    """
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    saved = Path(config.model)
    size = sum(f.stat().st_size for f in saved.glob("*.safetensors")) if saved.is_dir() else 0
    if config.model == "tiny" or 0 < size < 4 * SMALL:
        torch.set_num_threads(1)


def load_model(config: Config) -> Loaded:
    """Return the policy before any training of the run, its warm start included, with its tokenizer."""
    return load_policy(config.model, task=config.task)


def task_of(config: Config, tokenizer: Any) -> Task:
    """Return the task that is trained on, or held out."""
    return load_task(config.task, tokenizer)


def new_sampler(policy: Policy, tokenizer: Any, config: Config) -> Sampler:
    """Return the sampler of a config: this process, or the server at `config.sampler`."""
    if config.sampler:
        from rlvitals.grpo.remote import RemoteSampler

        return RemoteSampler(config.sampler)
    return local_sampler(policy, tokenizer)


def local_sampler(policy: Policy, tokenizer: Any) -> LocalSampler:
    """Return a sampler over the trained weights themselves."""
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    return LocalSampler(policy.model, int(tokenizer.eos_token_id), int(pad), policy.autocast)


def sync(sampler: Sampler, model: nn.Module, version: int, step: int) -> None:
    """Hand the weights after a step to the sampler."""
    sampler.push(model, version)


def as_it_is(step: int, row: Row) -> Row:
    """Return the row that is logged: what was measured."""
    return row


Collect = Callable[[Task, Sequence[Item], int, Sampler, Any, Sampling, int], list[Trajectory]]


@dataclass(frozen=True)
class Parts:
    """The pieces of a run.

    Attributes:
        model: config -> policy and tokenizer, before a warm start on a file.
        task: (config, tokenizer) -> what is trained on; held_out: the same for what is evaluated.
        reference: (policy, held) -> what the divergence is measured to: a copy of the policy at its start.
        sampler: (policy, tokenizer, config) -> what samples the rollouts; evaluations have their own.
        collect: plays rollouts; pack: trajectories to tensors, and which tokens count.
        score: log-probabilities of the policy before the update; with `score_every` above 1 it gets, in the steps
            between, the rows alone that the update does not see.
        advantage: rewards to advantages; loss: one micro-batch; update: all optimizer steps of a step.
        sync: hands the new weights to the sampler, after each step.
        record: (step, row) -> the row that is logged.
    """

    model: Callable[[Config], Loaded] = load_model
    task: Callable[[Config, Any], Task] = task_of
    held_out: Callable[[Config, Any], Task] = task_of
    reference: Callable[..., Reference] = Reference
    sampler: Callable[[Policy, Any, Config], Sampler] = new_sampler
    collect: Callable[..., list[Trajectory]] = collect
    pack: Callable[..., Any] = pack
    score: Callable[..., Any] = score
    advantage: AdvantageOf = advantage_B
    loss: LossOf = policy_loss
    update: Callable[[Trainer, Recipe, StepData, int, LossOf], UpdateStats] = update
    sync: Callable[[Sampler, nn.Module, int, int], None] = sync
    record: Callable[[int, Row], Row] = as_it_is
