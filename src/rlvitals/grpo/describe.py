"""What config.json says of a run: its settings, the canonical facts that checks need, and what it was run with."""

from __future__ import annotations

import math
import platform
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rlvitals.grpo.advantages import Advantage
from rlvitals.grpo.aggregation import Aggregation
from rlvitals.grpo.config import Config, digest
from rlvitals.grpo.kl import Estimator, KlTerm, Place
from rlvitals.grpo.ratios import RatioLevel
from rlvitals.grpo.ratiostats import clip_bounds
from rlvitals.grpo.recipes import DeadGroups, Overlong, Recipe
from rlvitals.grpo.rewards.plan import Rule
from rlvitals.grpo.tasks.base import Task
from rlvitals.schema import RunConfig

_SCALING = {
    Advantage.GROUP_STD: "group",
    Advantage.BATCH_STD: "batch",
    Advantage.CENTRED_BATCH_STD: "batch",
    Advantage.COMPONENTS: "group",
}
_AGGREGATION = {
    Aggregation.SEQUENCE_MEAN: "sequence mean",
    Aggregation.TOKEN_MEAN: "token mean",
    Aggregation.SEQUENCE_SUM: "sequence sum",
    Aggregation.CONSTANT: "constant length",
    Aggregation.LOCAL_TOKEN_MEAN: "token mean",
}
_LEVEL = {
    RatioLevel.TOKEN: "token",
    RatioLevel.SEQUENCE_MEAN: "sequence",
    RatioLevel.SEQUENCE_TOKEN: "sequence",
    RatioLevel.SEQUENCE_SUM: "sequence sum",
}
_ESTIMATOR = {Estimator.K3_PLUS: "k3", Estimator.RATIO_K3: "k3"}


def run_config(config: Config, recipe: Recipe, task: Task, vocab_size: int, identity: str) -> RunConfig:
    """Return the settings in canonical form, as `rlvitals check` and the monitor read them."""
    bounds = clip_bounds(recipe.surrogate)
    term = recipe.kl_term
    sampled = config.sampler != ""
    return RunConfig(
        group_size=config.group_size,
        prompts_per_step=config.prompts,
        updates_per_rollout=float(config.epochs * config.minibatches),
        clip_low=None if bounds is None else bounds[0],
        clip_high=None if bounds is None else bounds[1],
        kl_coef=0.0 if term is None else _strongest(term, task),
        kl_estimator=None if term is None else _ESTIMATOR.get(term.estimator, term.estimator.value),
        kl_in_reward=term is not None and term.place is Place.REWARD,
        loads_reference=config.reference_reset >= 0,
        entropy_coef=recipe.entropy_coef,
        reference_reset_steps=config.reference_reset if config.reference_reset > 0 else None,
        temperature=config.temperature,
        top_p=config.top_p,
        top_k=config.top_k,
        trainer_temperature=config.temperature,
        sampler_correction=bool(recipe.corrections) or recipe.off_policy_delta is not None,
        token_budget=config.max_tokens,
        vocab_size=vocab_size,
        loss_type=config.recipe.partition(":")[0],
        loss_aggregation=_AGGREGATION[recipe.aggregation],
        importance_level=_LEVEL[recipe.ratio_level],
        advantage_estimator="grpo",
        advantage_scaling=_SCALING.get(recipe.advantage, "none"),
        reward_aggregation="normalise then sum" if _apart(recipe, task) else "sum then normalise",
        drops_zero_variance=recipe.dead_groups is not DeadGroups.KEEP,
        scores_dropped=True,
        masks_truncated=recipe.overlong is Overlong.FILTER,
        learning_rate=config.lr,
        lr_schedule="constant_with_warmup" if config.warmup_steps else "constant",
        warmup_steps=math.ceil(config.warmup_steps / (config.epochs * config.minibatches)),  # steps of the log
        planned_steps=config.steps,
        max_grad_norm=config.max_grad_norm or None,
        logging_steps=1,
        eval_items=min(config.eval_items, len(task.held_out)) or None,
        reward_min=0.0 if task.plan.max_total is not None else None,
        reward_max=task.plan.max_total,
        uses_lora=config.lora_rank > 0,
        asynchronous=sampled,
        model=identity,
        algorithm="grpo",
        versions=versions(config, task),
    )


def _strongest(term: KlTerm, task: Task) -> float:
    """Return the largest coefficient that a training item has: 0 where the penalty acts on none."""
    return max((term.of(name) for name in {i.family for i in task.train}), default=term.coef)


def _apart(recipe: Recipe, task: Task) -> bool:
    return recipe.advantage is Advantage.COMPONENTS or task.plan.rule is Rule.GDPO


def versions(config: Config, task: Task) -> dict[str, str]:
    """Return the identities of environment, reward and sampler settings, and of the packages at work."""
    plan = [[p.name, p.weight, p.only_if_right, getattr(p.judge, "__qualname__", "")] for p in task.plan.parts]
    sampling = [config.temperature, config.top_p, config.top_k, config.max_tokens, config.sampler, config.dtype]
    found = {
        "environment": task.version,
        "reward": digest([task.version, plan, task.plan.rule.value, task.plan.gate]),
        "sampler": digest(sampling),
        "python": platform.python_version(),
    }
    for package in ("rlvitals", "torch", "transformers", "accelerate"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def description(config: Config, recipe: Recipe, run: RunConfig, reference: str) -> dict[str, Any]:
    """Return what config.json holds: `train` the settings, `recipe` the loss, `run` the canonical facts."""
    known = {k: v for k, v in run.known().items() if v == v}
    return {
        "trainer": "rlvitals train",
        "config_hash": config.hash(),
        "train": asdict(config),
        "recipe": plain(recipe),
        "run": known,
        "versions": dict(run.versions),
        "reference": reference,
    }


def plain(value: object) -> Any:
    """Return nested dataclasses and enums as JSON types; a dataclass carries its kind."""
    if is_dataclass(value) and not isinstance(value, type):
        inner = {f.name: plain(getattr(value, f.name)) for f in fields(value)}
        return {"kind": type(value).__name__, **inner}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict) or hasattr(value, "items"):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value
