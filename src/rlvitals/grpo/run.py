"""A run being set up: everything the loop works with, checked before the first step, fresh or from a checkpoint."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rlvitals.errors import InputError, Problem
from rlvitals.grpo import checkpoint
from rlvitals.grpo.chat import end_id
from rlvitals.grpo.checkpoint import Saved
from rlvitals.grpo.config import RESUMABLE_CHANGES, Config, checked
from rlvitals.grpo.describe import description, run_config
from rlvitals.grpo.distributed import Parallel, launched
from rlvitals.grpo.evaluate import Cadence
from rlvitals.grpo.kl import Place
from rlvitals.grpo.logs import RunLog, write_json
from rlvitals.grpo.notices import impatient, notices
from rlvitals.grpo.parts import Parts, local_sampler, new_sampler
from rlvitals.grpo.pool import Pool
from rlvitals.grpo.presets import recipe_of, score_every, unknown_families
from rlvitals.grpo.recipes import Recipe
from rlvitals.grpo.reference import Reference
from rlvitals.grpo.remote import RemoteSampler
from rlvitals.grpo.rollout import Sampler, Sampling, Trajectory
from rlvitals.grpo.rolloutfiles import RolloutFiles
from rlvitals.grpo.sameitems import noted, unlike
from rlvitals.grpo.score import Policy
from rlvitals.grpo.stop import Stopping
from rlvitals.grpo.tasks.base import Task
from rlvitals.grpo.update import Trainer, new_optimizer
from rlvitals.grpo.vocabulary import report as tag_report
from rlvitals.grpo.warmed import Say, Warmed, carry_out, planned
from rlvitals.schema import RunConfig

CONFIG = "config.json"


@dataclass
class Run:
    """What one step after the other works with.

    Attributes:
        given: the config as the user gave it; config: the same with what the task decides filled in.
        step: steps that are complete; seconds and tokens: of all of them, earlier starts included.
        log, rollouts: None in processes that do not write.
        latest: rollouts of the last step, in the order of sampling.
        score_every: steps from one scoring pass to the next.
        warm: how the warm start went, None without one.
        items: what a checkpoint notes of the items (`sameitems.noted`).
    """

    given: Config
    config: Config
    recipe: Recipe
    parts: Parts
    folder: Path
    task: Task
    held_out: Task
    tokenizer: Any
    policy: Policy
    reference: Reference
    trainer: Trainer
    sampler: Sampler
    eval_sampler: Sampler
    pool: Pool
    parallel: Parallel
    facts: RunConfig
    cadence: Cadence
    stopping: Stopping
    log: RunLog | None = None
    rollouts: RolloutFiles | None = None
    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    started: float = field(default_factory=time.perf_counter)
    resumed: int | None = None
    latest: Sequence[Trajectory] = ()
    score_every: int = 1
    warm: Warmed | None = None
    items: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sampling(self) -> Sampling:
        """How rollouts are drawn."""
        c = self.config
        return Sampling(c.temperature, c.top_p, c.top_k, c.max_tokens)

    @property
    def scoring(self) -> bool:
        """True when the next step scores all its rollouts before the update."""
        return self.step % self.score_every == 0

    def elapsed(self) -> float:
        """Seconds of this run, earlier starts included."""
        return self.seconds + time.perf_counter() - self.started


def open_run(config: Config, parts: Parts, folder: Path, *, resume: bool = False, say: Say | None = None) -> Run:
    """Return a run ready for its next step. Raises InputError with what is wrong, before anything is written.

    Args:
        say: told how far a warm start is.
    """
    checked(config)
    recipe = recipe_of(config)
    saved = _saved(config, folder, resume=resume)
    plan = planned(config, folder, resume=resume)
    parallel = launched()
    loaded = parts.model(config)
    end_id(loaded.tokenizer)
    task, held_out = parts.task(config, loaded.tokenizer), parts.held_out(config, loaded.tokenizer)
    _require(config, recipe, task, held_out, parallel)
    items = _items(task, held_out, saved)
    warm = None
    if plan is not None:
        if plan.kept is None:
            _ready(config, parts)
        loaded, warm = carry_out(plan, loaded, parallel, say)
    given, config = config, replace(config, max_tokens=config.max_tokens or task.max_new_tokens)
    model = adapted(loaded.model, config)
    policy = Policy(model, getattr(torch, config.dtype)).to(parallel.device())
    reference = parts.reference(policy, held=config.reference_reset >= 0)
    if saved is not None:  # behind the reference, which is of the start; ahead of the wrapper, which may cut them
        checkpoint.load_weights(saved.folder, policy.model)
    wrapped, optimizer = parallel.prepare(policy, new_optimizer(policy, config.lr))
    sampler = parts.sampler(policy, loaded.tokenizer, config)
    facts = run_config(config, recipe, task, _vocabulary(model), loaded.identity)
    run = Run(
        given, config, recipe, parts, folder, task, held_out, loaded.tokenizer, policy, reference,
        Trainer(wrapped, optimizer, config, parallel), sampler,
        sampler if config.sampler else local_sampler(policy, loaded.tokenizer),
        Pool(task.train, config.seed), parallel, facts, Cadence(config.eval_every),
        Stopping(config.patience, config.dead_steps), score_every=score_every(config), warm=warm, items=items,
    )  # fmt: skip
    if saved is not None:
        _restore(run, saved)
    if parallel.main:
        _open_files(run, saved)
    with parallel.whole(wrapped):
        parts.sync(run.sampler, policy.model, run.trainer.version, run.step)
    return run


def _saved(config: Config, folder: Path, *, resume: bool) -> Saved | None:
    """Return the checkpoint to go on from. Raises InputError for a folder in use, and for another config."""
    if not resume:
        if (folder / CONFIG).exists():
            raise InputError(
                Problem("the folder already holds a run", str(folder),
                        hint=f"Go on with it: rlvitals train --resume --out {folder}, or choose another --out")
            )  # fmt: skip
        return None
    saved = checkpoint.newest(folder)
    if saved is not None and saved.state["config_hash"] != config.hash():
        before = saved.state["config"]
        unlike = [k for k, v in vars(config).items() if before.get(k) != v and k not in RESUMABLE_CHANGES]
        raise InputError(
            Problem("the checkpoint is of another config", str(saved.folder), ", ".join(unlike) or "another version",
                    "the same settings", "Start anew in another --out, or take the settings back")
        )  # fmt: skip
    return saved


def _items(task: Task, held_out: Task, saved: Saved | None) -> dict[str, Any]:
    """Return what is noted of the items. Raises InputError where they are not those that the checkpoint notes."""
    found = noted(task, held_out)
    before = None if saved is None else saved.state.get("items")  # checkpoints of before 2026-11-30 do not hold it
    problems = [] if saved is None or before is None else unlike(before, found, str(saved.folder))
    if problems:
        raise InputError(*problems)
    return found


def _ready(config: Config, parts: Parts) -> None:
    """Refuse what needs no training to be refused, before a warm start that may take hours. Raises InputError."""
    if config.lora_rank:
        _adapters()
    if config.sampler and parts.sampler is new_sampler:
        RemoteSampler(config.sampler)


def _require(config: Config, recipe: Recipe, task: Task, held_out: Task, parallel: Parallel) -> None:
    problems: list[Problem] = []
    if not task.train:
        problems.append(Problem("no items to train on", f"task {config.task}", "0 items", "1 or more"))
    problems += [*impatient(config, held_out), *unknown_families(config, task)]
    if config.prompts < parallel.world:
        problems.append(
            Problem("fewer prompts than processes", "prompts", str(config.prompts), f"{parallel.world} or more")
        )
    term = recipe.kl_term
    weighed = term is not None and max((term.coef, *term.by_family.values())) > 0
    if weighed and config.reference_reset < 0:
        problems.append(Problem("a KL term without a reference", "reference_reset", "-1", "0 or more with kl_coef > 0"))
    if term is not None and term.place is Place.REWARD and config.reference_reset < 0:
        problems.append(Problem("a KL penalty in the reward needs a reference", "reference_reset", "-1", "0 or more"))
    problems += _unscored(config, recipe)
    if problems:
        raise InputError(*problems)


def _unscored(config: Config, recipe: Recipe) -> list[Problem]:
    """Return what needs a scoring pass in every step, where the recipe's options leave some out."""
    if score_every(config) == 1:
        return []
    where, given, found = "--recipe", f"score_every={score_every(config)}", []
    updates = config.epochs * config.minibatches
    if updates != 1:
        found.append(
            Problem("the old policy must be scored where a batch makes several updates", where,
                    f"{given} with epochs={config.epochs} and minibatches={config.minibatches}: {updates} updates",
                    "1 update per batch",
                    "Try --set epochs=1 and --set minibatches=1, or leave score_every out")
        )  # fmt: skip
    if recipe.kl_term is not None and recipe.kl_term.place is Place.REWARD:
        found.append(
            Problem("a KL penalty in the reward needs the scores before the advantages", where,
                    f"{given} with the penalty in the reward", "score_every=1",
                    "Leave score_every out, or put the penalty into the loss: kl_in=loss")
        )  # fmt: skip
    return found


def adapted(model: nn.Module, config: Config) -> nn.Module:
    """Return the model with adapters or recomputation as the config asks, without dropout."""
    inner: Any = model
    if config.lora_rank:
        inner = _with_adapters(inner, config)
    if config.checkpoint_activations:
        recompute_activations(inner)
        if config.lora_rank:
            inner.enable_input_require_grads()
    for module in inner.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0  # the old policy and the new one must differ by their weights alone
    evaluated: nn.Module = inner.eval()
    return evaluated


def recompute_activations(model: Any) -> None:
    """Make the model recompute its activations in the backward pass while it is in training mode."""
    if hasattr(model, "activation_checkpointing_enable"):  # its name from transformers 5.24 on
        model.activation_checkpointing_enable()
    else:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def _adapters() -> Any:
    """Return the package that makes adapters. Raises InputError where it is not installed."""
    try:
        import peft
    except ImportError as error:
        raise InputError(
            Problem("training adapters needs the package peft", "lora_rank", "not installed",
                    hint="Install it: pip install 'rlvitals[tasks]'")
        ) from error  # fmt: skip
    return peft


def _with_adapters(model: Any, config: Config) -> Any:
    peft = _adapters()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)  # the adapters' first weights
        return peft.get_peft_model(
            model, peft.LoraConfig(r=config.lora_rank, lora_alpha=2 * config.lora_rank, target_modules="all-linear",
                              task_type="CAUSAL_LM")
        )  # fmt: skip


def _vocabulary(model: Any) -> int:
    return int(model.get_output_embeddings().weight.shape[0])


def _restore(run: Run, saved: Saved) -> None:
    """Put a checkpoint back, whose weights are there already."""
    state = saved.state
    optimizer = checkpoint.optimizer_state(saved)
    run.trainer.optimizer.load_state_dict(dict(run.parallel.divided(optimizer, run.trainer.optimizer)))
    known = state["reference"]
    run.reference.load(checkpoint.load_reference(saved), int(known["since"]), str(known["identity"]))
    run.trainer.updates, run.trainer.version = int(state["updates"]), int(state["version"])
    run.pool.load(state["pool"])
    run.stopping.load(state["stopping"])
    every = int(state.get("eval_every", run.cadence.every))  # checkpoints of before 2026-11-30 do not hold it
    run.cadence = Cadence(every, float(state["eval_seconds"]))
    run.step, run.tokens, run.seconds = saved.step, int(state["tokens"]), float(state["seconds"])
    run.resumed = saved.step
    checkpoint.load_random(saved)


def state_of(run: Run) -> dict[str, Any]:
    """Return what a checkpoint keeps beside weights and optimizer."""
    return {
        "config": vars(run.given),
        "config_hash": run.given.hash(),
        "updates": run.trainer.updates,
        "version": run.trainer.version,
        "pool": run.pool.state(),
        "items": run.items,
        "stopping": run.stopping.state(),
        "reference": {"since": run.reference.since, "identity": run.reference.identity},
        "tokens": run.tokens,
        "seconds": run.elapsed(),
        "eval_seconds": run.cadence.seconds,
        "eval_every": run.cadence.every,
        "log_offsets": run.log.offsets() if run.log is not None else {},
    }


def _open_files(run: Run, saved: Saved | None) -> None:
    run.log = RunLog(run.folder, run.config.steps, None if saved is None else saved.state["log_offsets"])
    versions = run.facts.versions
    fixed: dict[str, object] = {
        "env_version": versions["environment"],
        "reward_version": versions["reward"],
        "sampler_version": versions["sampler"],
        "temperature": run.config.temperature,
        "top_p": run.config.top_p,
        "token_budget": run.config.max_tokens,
    }
    run.rollouts = RolloutFiles(run.folder, fixed, after=run.step)
    write_json(run.folder / CONFIG, description(run.given, run.recipe, run.facts, run.reference.identity))
    if saved is not None:
        run.log.event(saved.step, "resume", f"from {saved.folder.name}")
    else:
        run.log.event(0, "tokenizer", str(tag_report(run.tokenizer, run.policy.model)))
        if run.warm is not None:
            run.log.event(0, "warm-start", run.warm.sentence(), losses=run.warm.shown())
        for text in notices(run.given, run.task, run.held_out):
            run.log.event(0, "notice", text)
