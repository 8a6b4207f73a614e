"""SkyRL: console, TensorBoard, W&B and MLflow of its synchronous and fully asynchronous trainers; 0.2 to 0.4."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from rlvitals.ingest.adapter import Adapter, EvalKey, Key
from rlvitals.ingest.configmap import lookup
from rlvitals.schema import Direction, Provenance, RunConfig, Scope, Status, TrainerInfo

_REF, _SMP = Direction.TO_REFERENCE, Direction.SAMPLER_TRAINER

_EARNING = "completions whose reward is above 0; 0 when there are none"
_NOTHING = "completions whose reward is 0; 0 when there are none"
_GAP = Key("logprob_gap_mean", direction=_SMP)
_GAP_MAX = Key("logprob_gap_max", direction=_SMP)
_OFF_POLICY = "policy/loss_metrics/is_ratio"

_KEYS: dict[str, Key] = {
    "reward/avg_raw_reward": Key("reward_mean", note="before the KL penalty"),
    "generate/avg_num_tokens": Key("length_mean", note="tool and observation tokens included"),
    "generate/min_num_tokens": Key("length_min"),
    "generate/max_num_tokens": Key("length_max"),
    "generate/std_num_tokens": Key("length_std"),
    "generate/avg_tokens_non_zero_rewards": Key("length_right_mean", note=_EARNING),
    "generate/avg_tokens_zero_rewards": Key("length_wrong_mean", note=_NOTHING),
    "loss/avg_raw_advantages": Key("advantage_mean", estimator="token mean"),
    "policy/policy_entropy": Key("entropy", estimator="full vocabulary"),
    "policy/policy_kl": Key("kl_ref", estimator="k3", direction=_REF),
    "loss/avg_kl": Key("kl_ref", direction=_REF, note="KL in the reward; estimator is kl_estimator_type"),
    "loss/kl_loss_coef": Key("kl_coef"),
    "policy/loss_metrics/clip_ratio": Key("clip_frac", estimator="token"),
    "policy/ppo_clip_ratio": Key("clip_frac", estimator="token"),
    "policy/policy_loss": Key("policy_loss"),
    "policy/final_loss": Key("loss"),
    "policy/grad_norm": Key("grad_norm"),
    "policy/raw_grad_norm": Key("grad_norm"),
    "policy/policy_lr": Key("learning_rate"),
    "policy/rollout_train_logprobs_abs_diff_mean": _GAP,
    "policy/minibatch_rollout_logprobs_abs_diff_mean": _GAP,
    "policy/rollout_train_logprobs_abs_diff_max": _GAP_MAX,
    "policy/minibatch_rollout_logprobs_abs_diff_max": _GAP_MAX,
    f"{_OFF_POLICY}_mean": Key("sampler_ratio_mean", estimator="token", direction=_SMP),
    f"{_OFF_POLICY}_max": Key("sampler_ratio_max", direction=_SMP),
    "async/staleness_mean": Key("version_lag_mean"),
    "async/staleness_max": Key("version_lag_max"),
    "timing/step": Key("step_time_s"),
    "trainer/tokens_per_second_per_gpu": Key("tokens_per_second", note="per GPU"),
    "trainer/epoch": Key("epoch"),
}

_PATTERNS: tuple[tuple[str, Key], ...] = (
    ("environment/{}", Key("reward_part/{}", note="a metric of the environment")),
)  # fmt: skip

_IGNORED: tuple[str, ...] = (
    "reward/avg_pass_at_{}", "reward/mean_positive_reward", "reward/num_zero_variance_filtered", "generate/{}",
    "loss/{}", "policy/{}", "critic/{}", "async/{}", "trainer/{}", "timing/{}", "vllm/{}", "ray/{}", "train/{}",
    "trajectories/{}", "eval/{}",
)  # fmt: skip

_EVALS: tuple[EvalKey, ...] = (
    EvalKey("eval/{}/avg_score", "{}", metric="reward", note="mean reward"),
    EvalKey("eval/{}/pass_at_{}", "{0} pass@{1}", note="share of prompts with a reward above 0"),
)


def _matches(keys: frozenset[str]) -> int:
    if keys & {"reward/avg_raw_reward", "generate/avg_num_tokens"}:
        return 96
    return 80 if {"policy/policy_lr", "policy/final_loss"} <= keys else 0


def _refine(keys: frozenset[str], config: RunConfig) -> dict[str, Key]:
    """Return the keys whose meaning depends on the settings."""
    out: dict[str, Key] = {}
    if config.kl_estimator is not None:
        for name in ("policy/policy_kl", "loss/avg_kl"):
            out[name] = replace(_KEYS[name], estimator=config.kl_estimator)
    if config.importance_level == "sequence":
        out["policy/loss_metrics/clip_ratio"] = Key("clip_frac", estimator="sequence")
    if config.drops_zero_variance:
        note = "dynamic sampling is on: groups that were dropped are not in it"
        for name in (*(n for n in _KEYS if n.startswith(("reward/", "generate/"))), "loss/avg_raw_advantages"):
            base = _KEYS[name]
            out[name] = replace(base, scope=Scope.KEPT, note=f"{base.note}; {note}" if base.note else note)
    if config.prompts_per_step is not None:
        out["reward/num_zero_variance_filtered"] = Key(
            "zero_variance_frac",
            scale=1.0 / config.prompts_per_step,
            transform=f"count / {config.prompts_per_step} prompts per step",
            note="groups without variance, which zero_variance_filter masks",
        )
    return out


_ROUNDED = "this console prints four decimals, so a small learning rate shows as 0.0000"


def _finish(provenance: Mapping[str, Provenance], config: RunConfig) -> dict[str, Provenance]:
    """Mark the learning rate of the console, which rounds it away, as a placeholder."""
    out = dict(provenance)
    rate = out.get("learning_rate")
    if rate is not None and rate.file.lower().endswith((".log", ".out", ".txt", ".err")):
        out["learning_rate"] = replace(rate, status=Status.PLACEHOLDER, note=_ROUNDED)
    return out


_ALGO, _GEN = "trainer.algorithm", "generator.sampling_params"

_CONFIG: dict[str, tuple[str, ...]] = {
    "group_size": ("generator.n_samples_per_prompt",),
    "prompts_per_step": ("trainer.train_batch_size",),
    "clip_low": (f"{_ALGO}.eps_clip_low",),
    "clip_high": (f"{_ALGO}.eps_clip_high",),
    "kl_estimator": (f"{_ALGO}.kl_estimator_type",),
    "kl_in_reward": (f"{_ALGO}.use_kl_in_reward",),
    "temperature": (f"{_GEN}.temperature",),
    "top_p": (f"{_GEN}.top_p",),
    "top_k": (f"{_GEN}.top_k",),
    "token_budget": (f"{_GEN}.max_generate_length",),
    "min_p": (f"{_GEN}.min_p",),
    "prompt_budget": ("trainer.max_prompt_length",),
    "trainer_temperature": (f"{_ALGO}.temperature",),
    "advantage_estimator": (f"{_ALGO}.advantage_estimator",),
    "advantage_scaling": (f"{_ALGO}.grpo_norm_by_std",),
    "masks_truncated": ("generator.apply_overlong_filtering",),
    "learning_rate": ("trainer.policy.optimizer_config.lr",),
    "lr_schedule": ("trainer.policy.optimizer_config.scheduler",),
    "warmup_steps": ("trainer.policy.optimizer_config.num_warmup_steps",),
    "planned_steps": ("trainer.max_training_steps",),
    "max_grad_norm": ("trainer.policy.optimizer_config.max_grad_norm",),
    "asynchronous": ("trainer.fully_async.enabled",),
    "max_version_lag": ("trainer.fully_async.max_staleness_steps",),
    "model": ("trainer.policy.model.path",),
}

_AGGREGATION = {
    "token_mean": "token mean",
    "token_mean_legacy": "token mean",
    "sequence_mean": "sequence mean",
    "seq_mean_token_sum_norm": "constant length",
}


def _config_rules(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    """Return the fields that several SkyRL settings decide together."""
    out: dict[str, tuple[object, str]] = {}
    used, in_reward = flat.get(f"{_ALGO}.use_kl_loss"), flat.get(f"{_ALGO}.use_kl_in_reward")
    if used is True or in_reward is True:
        out["kl_coef"] = (flat.get(f"{_ALGO}.kl_loss_coef"), f"{_ALGO}.kl_loss_coef")
    elif used is False and in_reward is False:
        out["kl_coef"] = (0.0, f"{_ALGO}.use_kl_loss and {_ALGO}.use_kl_in_reward are off")
    if isinstance(used, bool) and isinstance(in_reward, bool):
        out["loads_reference"] = (used or in_reward, f"{_ALGO}.use_kl_loss and {_ALGO}.use_kl_in_reward")
    bonus = flat.get(f"{_ALGO}.use_entropy_loss")
    if isinstance(bonus, bool):
        coef = flat.get(f"{_ALGO}.entropy_loss_coef") if bonus else 0.0
        out["entropy_coef"] = (coef, f"{_ALGO}.entropy_loss_coef" if bonus else f"{_ALGO}.use_entropy_loss")
    sampling = lookup(flat, f"{_ALGO}.dynamic_sampling.type")
    if sampling is not None:
        out["drops_zero_variance"] = (sampling[0] == "filter", sampling[1])
    kind = flat.get(f"{_ALGO}.policy_loss_type")
    if isinstance(kind, str):
        out["importance_level"] = ("sequence" if kind == "gspo" else "token", f"{_ALGO}.policy_loss_type")
        if kind not in ("regular", "dual_clip"):
            out["loss_type"] = (kind, f"{_ALGO}.policy_loss_type")
    reduction = flat.get(f"{_ALGO}.loss_reduction")
    if isinstance(reduction, str):
        out["loss_aggregation"] = (_AGGREGATION.get(reduction, reduction), f"{_ALGO}.loss_reduction")
    batch, mini, epochs = (
        _number(flat, f"trainer.{name}")
        for name in ("train_batch_size", "policy_mini_batch_size", "update_epochs_per_batch")
    )
    if batch and mini and epochs:
        paths = "update_epochs_per_batch x train_batch_size / policy_mini_batch_size"
        out["updates_per_rollout"] = (epochs * max(1, math.ceil(batch / mini)), paths)
    rank = _number(flat, "trainer.policy.model.lora.rank")
    if rank is not None:
        out["uses_lora"] = (rank > 0, "trainer.policy.model.lora.rank")
    return out


def _number(flat: Mapping[str, object], path: str) -> float | None:
    value = flat.get(path)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


_BY_DEFAULT = "trainer.logger=tensorboard  # logged by default, in $TENSORBOARD_DIR or ./tensorboard_log"
_ENV = "return it from get_metrics() of your SkyRL-Gym environment; logged as environment/<name>"
_CALLBACK = "a TrainingCallback passed as callbacks=[...]: add it to callback_input.logs in on_log"
_FILTER = f"{_ALGO}.zero_variance_filter=true  # logs reward/num_zero_variance_filtered"

_KNOBS: dict[str, str] = {
    "group_size": "generator.n_samples_per_prompt",
    "prompts_per_step": "trainer.train_batch_size",
    "updates_per_rollout": "trainer.policy_mini_batch_size and trainer.update_epochs_per_batch",
    "clip_low": f"{_ALGO}.eps_clip_low",
    "clip_high": f"{_ALGO}.eps_clip_high",
    "kl_coef": f"{_ALGO}.kl_loss_coef (with {_ALGO}.use_kl_loss=true)",
    "kl_estimator": f"{_ALGO}.kl_estimator_type",
    "kl_in_reward": f"{_ALGO}.use_kl_in_reward",
    "entropy_coef": f"{_ALGO}.entropy_loss_coef (with {_ALGO}.use_entropy_loss=true)",
    "reference_reset_steps": "trainer.update_ref_every_epoch",
    "temperature": f"{_GEN}.temperature",
    "top_p": f"{_GEN}.top_p",
    "top_k": f"{_GEN}.top_k",
    "token_budget": f"{_GEN}.max_generate_length",
    "loss_type": f"{_ALGO}.policy_loss_type",
    "loss_aggregation": f"{_ALGO}.loss_reduction",
    "importance_level": f"{_ALGO}.policy_loss_type=gspo",
    "advantage_estimator": f"{_ALGO}.advantage_estimator",
    "advantage_scaling": f"{_ALGO}.grpo_norm_by_std",
    "drops_zero_variance": f"{_ALGO}.dynamic_sampling.type=filter",
    "masks_truncated": "generator.apply_overlong_filtering",
    "learning_rate": "trainer.policy.optimizer_config.lr",
    "lr_schedule": "trainer.policy.optimizer_config.scheduler",
    "warmup_steps": "trainer.policy.optimizer_config.num_warmup_steps",
    "planned_steps": "trainer.max_training_steps or trainer.epochs",
    "max_grad_norm": "trainer.policy.optimizer_config.max_grad_norm",
    "micro_batch": "trainer.micro_train_batch_size_per_gpu",
    "max_version_lag": "trainer.fully_async.max_staleness_steps",
    "asynchronous": "trainer.fully_async.enabled",
    "sync": "trainer.fully_async.max_staleness_steps; generator.inference_engine.weight_sync_backend",
    "sampler_correction": f"{_ALGO}.off_policy_correction.tis_ratio_type",
    "model": "trainer.policy.model.path",
    "curriculum": "data.train_data (or a sampler of your own)",
    "mixture": "data.train_data",
    "verifier": "step() of your SkyRL-Gym environment (environment.env_class)",
    "parser": "step() of your SkyRL-Gym environment (environment.env_class)",
    "reward_function": "environment.env_class",
    "eval_every": "trainer.eval_interval",
    "checkpoint_every": "trainer.ckpt_interval",
    "resume_from": "trainer.resume_mode=from_path trainer.resume_path",
}

_HOW_TO_LOG: dict[str, str] = {
    "reward_mean": _BY_DEFAULT,
    "reward_std": f"{_CALLBACK}: the std of generator_output['rewards'], as `reward_std`",
    "reward_part/*": _ENV,
    "reward_family/*": _ENV,
    "success_frac": _ENV,
    "success_tier/*": _ENV,
    "parse_failure_frac": _ENV,
    "verifier_error_frac": _ENV,
    "zero_variance_frac": _FILTER,
    "truncated_frac": f"{_CALLBACK}: the share of generator_output['stop_reasons'] that are 'length'",
    "stop_frac/*": _CALLBACK,
    "advantage_mean": _BY_DEFAULT,
    "length_mean": _BY_DEFAULT,
    "length_min": _BY_DEFAULT,
    "length_max": _BY_DEFAULT,
    "length_std": _BY_DEFAULT,
    "length_right_mean": _BY_DEFAULT,
    "length_wrong_mean": _BY_DEFAULT,
    "entropy": _BY_DEFAULT,
    "policy_loss": _BY_DEFAULT,
    "grad_norm": _BY_DEFAULT,
    "learning_rate": _BY_DEFAULT,
    "clip_frac": _BY_DEFAULT,
    "kl_ref": f"{_ALGO}.use_kl_loss=true  # the default",
    "logprob_gap_mean": f"{_GEN}.logprobs=1  # the default",
    "logprob_gap_max": f"{_GEN}.logprobs=1  # the default",
    "sampler_ratio_mean": f"{_ALGO}.off_policy_correction.tis_ratio_type=token",
    "version_lag_mean": "logged by the fully asynchronous trainer",
    "version_lag_max": "logged by the fully asynchronous trainer",
    "step_time_s": _BY_DEFAULT,
    "evals": "data.val_data and trainer.eval_interval=5",
    "rollouts": "trainer.dump_eval_results=true for held-out ones (default); training dumps are pickles: not read",
    "config": "put the launch command into run.sh beside the log, or use trainer.logger=wandb",
    "checkpoints": "trainer.ckpt_interval=10",
}

ADAPTER = Adapter(
    info=TrainerInfo(
        name="SkyRL",
        knobs=_KNOBS,
        how_to_log=_HOW_TO_LOG,
        step_base=1,
        defaults={
            "group_size": "5 (SkyRL 0.3)",
            "prompts_per_step": "1024 (SkyRL 0.3)",
            "updates_per_rollout": "4: 1024 prompts in mini-batches of 256 (SkyRL 0.3)",
            "kl_coef": "0.001, on (SkyRL 0.3)",
            "kl_estimator": "k3 (SkyRL 0.3)",
            "clip_low": "0.2 (SkyRL 0.3)",
            "clip_high": "0.2 (SkyRL 0.3)",
            "entropy_coef": "0.01, off (SkyRL 0.3)",
            "temperature": "1.0 (SkyRL 0.3)",
            "token_budget": "1024 (SkyRL 0.3)",
            "loss_aggregation": "token_mean (SkyRL 0.3)",
            "learning_rate": "1e-6 (SkyRL 0.3)",
            "max_grad_norm": "1.0 (SkyRL 0.3)",
            "eval_every": "5 (SkyRL 0.3)",
        },
    ),
    matches=_matches,
    step_keys=("step", "trainer/global_step", "_step"),
    keys=_KEYS,
    patterns=_PATTERNS,
    evals=_EVALS,
    ignore=_IGNORED,
    config=_CONFIG,
    refine=_refine,
    finish=_finish,
    config_rules=_config_rules,
)
