"""Runs of our own trainer, `rlvitals train`: metrics.jsonl in canonical names, config.json with canonical facts."""

from __future__ import annotations

from collections.abc import Mapping

from rlvitals.ingest.adapter import Adapter, EvalKey, Key
from rlvitals.metrics import METRICS
from rlvitals.runconfig import kinds
from rlvitals.schema import TrainerInfo

NAME = "rlvitals train"

_ESTIMATORS: Mapping[str, str] = {
    "reward_std": "batch",
    "advantage_mean": "sequence mean",
    "truncated_frac": "at budget",
    "entropy": "full vocabulary",
    "kl_ref": "k3",
    "kl_old_new": "k3",
    "kl_sampler_trainer": "k3",
    "sampler_ratio_mean": "token",
}
_KEYS: dict[str, Key] = {
    m.name: Key(m.name, estimator=_ESTIMATORS.get(m.name, ""), direction=m.direction)
    for m in METRICS
    if not m.name.endswith("/*")
}
_PATTERNS: tuple[tuple[str, Key], ...] = tuple(
    (m.name.replace("/*", "/{}"), Key(m.name.replace("/*", "/{}"))) for m in METRICS if m.name.endswith("/*")
)
_FINGERPRINT = frozenset({"extra/optimizer_steps", "extra/tries"})


def _matches(keys: frozenset[str]) -> int:
    return 99 if keys >= _FINGERPRINT else 0


def _set(name: str) -> str:
    return f"--set {name}=VALUE"


_KNOBS: dict[str, str] = {
    "group_size": _set("group_size"),
    "prompts_per_step": _set("prompts"),
    "updates_per_rollout": "--set epochs=N and --set minibatches=N (their product)",
    "clip_low": "--recipe (its row in grpo/recipes.py)",
    "clip_high": "--recipe (its row in grpo/recipes.py)",
    "kl_coef": _set("kl_coef"),
    "kl_estimator": "--recipe (its KL term)",
    "kl_in_reward": "--recipe (its KL term)",
    "entropy_coef": "--recipe (its entropy term)",
    "reference_reset_steps": _set("reference_reset"),
    "loads_reference": "--set reference_reset=-1 (holds none)",
    "temperature": _set("temperature"),
    "top_p": _set("top_p"),
    "top_k": _set("top_k"),
    "token_budget": _set("max_tokens"),
    "loss_type": "--recipe",
    "loss_aggregation": "--recipe (its aggregation)",
    "importance_level": "--recipe (its ratio level)",
    "advantage_estimator": "--recipe (its advantage)",
    "advantage_scaling": "--recipe (its advantage)",
    "reward_aggregation": "--recipe gdpo, or the task's reward plan",
    "masks_truncated": "--recipe (overlong: filter)",
    "drops_zero_variance": "--recipe (dead groups: drop or resample) and --set resample_tries=N",
    "sampler_correction": "--recipe (its corrections)",
    "learning_rate": _set("lr"),
    "lr_schedule": "constant after --set warmup_steps=N",
    "warmup_steps": _set("warmup_steps"),
    "planned_steps": "--steps N",
    "max_grad_norm": _set("max_grad_norm"),
    "micro_batch": _set("micro_tokens"),
    "uses_lora": _set("lora_rank"),
    "model": "--model PATH",
    "asynchronous": _set("sampler"),
    "sync": "the weights are pushed to the sampler after every step",
    "curriculum": "--task NAME:tiers=1+2 (tiers are drawn by their success)",
    "mixture": "--task",
    "verifier": "--task (its environment)",
    "parser": "--task (its environment)",
    "reward_function": "--task (its reward plan)",
    "reward_weights": "--task NAME:format=VALUE",
    "eval_every": _set("eval_every"),
    "eval_items": _set("eval_items"),
    "checkpoint_every": _set("save_every"),
    "resume_from": "--resume --out RUN (the newest complete checkpoint)",
}

_ALWAYS = "always logged"
_NEEDS_REFERENCE = "logged while a reference is held: --set reference_reset=0"
_HOW_TO_LOG: dict[str, str] = {
    **{m.name: _ALWAYS for m in METRICS if m.what_to_log},
    "advantage_mean": _ALWAYS,
    "advantage_std": _ALWAYS,
    "grad_norm": _ALWAYS,
    "loss": _ALWAYS,
    "learning_rate": _ALWAYS,
    "logprob_gap_mean": _ALWAYS,
    "kl_sampler_trainer": _ALWAYS,
    "unique_frac": _ALWAYS,
    "ratio_mean": "logged in every step with a scoring pass and an optimizer step",
    "clip_frac": "logged with every recipe that clips",
    "kl_ref": _NEEDS_REFERENCE,
    "success_tier/*": "logged where the task has tiers",
    "tool_failure_frac": "not possible without code: count it in the environment's `step` and give it as a reward part",
    "dropped_group_frac": "logged with every recipe that drops groups without signal",
    "evals": "--set eval_every=10 (the default), where the task has a held-out side",
    "rollouts": "always written to rollouts/*.parquet",
    "config": "always written to config.json",
    "checkpoints": "--set save_every=20 (the default)",
}

ADAPTER = Adapter(
    info=TrainerInfo(
        name=NAME,
        knobs=_KNOBS,
        how_to_log=_HOW_TO_LOG,
        step_base=1,
        defaults={
            "group_size": "8 (rlvitals 0.1)",
            "prompts_per_step": "16 (rlvitals 0.1)",
            "token_budget": "the task's own (rlvitals 0.1)",
            "learning_rate": "3e-4 (rlvitals 0.1)",
            "loss_type": "default (rlvitals 0.1)",
        },
        sequence_means=("advantage_mean",),
        update_means=("grad_norm",),
    ),
    matches=_matches,
    step_keys=("step",),
    keys=_KEYS,
    patterns=_PATTERNS,
    evals=(EvalKey("eval/{}", "{}"),),
    ignore=("extra/{}",),
    # config.json holds the facts under their canonical names already
    config={name: (f"run.{name}",) for name in kinds()} | {"eval_items": ("run.eval_items", "train.eval_items")},
)
