"""tinker-cookbook: metrics.jsonl of its RL loop, and of custom loops on the Tinker API that log `reward/mean`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rlvitals.ingest.adapter import Adapter, Derived, EvalKey, Key
from rlvitals.schema import Direction, Float64, RunConfig, Scope, TrainerInfo

_OLD, _REF, _SMP = Direction.OLD_NEW, Direction.TO_REFERENCE, Direction.SAMPLER_TRAINER

_PER_TURN = "per turn: a rollout of several turns is longer"
_TIED = "tied groups whose reward is at least 0.5"
_TIED_BAD = "tied groups whose reward is below 0.5"

_KEYS: dict[str, Key] = {
    "env/all/reward/total": Key("reward_mean"),
    "env/all/correct": Key("success_frac"),
    "env/all/ac_tokens_per_turn": Key("length_mean", note=_PER_TURN),
    "env/all/ob_tokens_per_turn": Key("prompt_length_mean", note=_PER_TURN),
    "env/all/turns_per_episode": Key("turns_mean"),
    "env/all/by_group/frac_all_good": Key("all_right_frac", note=_TIED),
    "env/all/by_group/frac_all_bad": Key("all_wrong_frac", note=_TIED_BAD),
    "optim/lr": Key("learning_rate"),
    "optim/entropy": Key("entropy", estimator="sampled"),
    "optim/kl_sample_train_v1": Key("kl_sampler_trainer", estimator="k1", direction=_SMP),
    "kl_policy_base": Key("kl_ref", estimator="k1", direction=_REF, note="sampled minus base log-probability"),
    "kl_pre_post_v1": Key("kl_old_new", estimator="k1", direction=_OLD),
    "async/staleness_mean": Key("version_lag_mean"),
    "async/staleness_max": Key("version_lag_max"),
    "time/total": Key("step_time_s"),
    "progress/epoch": Key("epoch"),
    # custom loops
    "reward/mean": Key("reward_mean"),
    "reward/std": Key("reward_std", estimator="batch"),
    "reward/min": Key("reward_min"),
    "reward/max": Key("reward_max"),
    "policy/entropy": Key("entropy", estimator="sampled", note="a custom loop: taken as the mean of -log p"),
}

_PATTERNS: tuple[tuple[str, Key], ...] = (
    ("env/all/stop/{}", Key("stop_frac/{}")),
    ("env/{}/reward/total", Key("reward_family/{}")),
    ("reward/{}", Key("reward_part/{}")),
)

_IGNORED: tuple[str, ...] = (
    "progress/{}",
    "env/{}",  # counts, and the same metrics per tag
    "optim/kl_sample_train_v2",
    "kl_pre_post_v2",
    "sampling_client/{}",
    "async/{}",
    "time/{}",
    "timestamp",
    "test/{}",
)

_EVALS: tuple[EvalKey, ...] = (
    EvalKey("test/env/all/correct", "test"),
    EvalKey("test/env/all/reward/total", "test reward", metric="reward"),
    EvalKey("test/env/{}/correct", "test {}"),
    EvalKey("{}/env/all/correct", "{}"),
    EvalKey("{}/env/all/reward/total", "{} reward", metric="reward"),
    EvalKey("test/{}/accuracy", "{}"),
)

# Counts and token statistics that the loop itself writes under env/all/; they are no parts of the reward.
_OWN = ("total_", "by_group/", "time/", "ac_tokens", "ob_tokens", "turns_per", "reward/total", "stop/")


def _matches(keys: frozenset[str]) -> int:
    if "env/all/reward/total" in keys:
        return 98
    if "reward/mean" in keys and "progress/done_frac" in keys and "optim/lr" in keys:
        return 80
    return 60 if any(key.startswith("env/all/by_group/") for key in keys) else 0


def _refine(keys: frozenset[str], config: RunConfig) -> dict[str, Key]:
    """Return the keys whose meaning depends on the config or on what else is logged."""
    out: dict[str, Key] = {}
    if "optim/kl_sample_train_v1" not in keys and "optim/kl_sample_train_v2" in keys:
        out["optim/kl_sample_train_v2"] = Key("kl_sampler_trainer", estimator="k2", direction=_SMP)
    if "kl_pre_post_v1" not in keys and "kl_pre_post_v2" in keys:
        out["kl_pre_post_v2"] = Key("kl_old_new", estimator="k2", direction=_OLD)
    for name in keys:
        part = name.removeprefix("env/all/")
        if part != name and name not in _KEYS and not part.startswith(_OWN):
            out[name] = Key(f"reward_part/{part}", note="a metric of the environment")
    if config.drops_zero_variance:
        note = "remove_constant_reward_groups is on: groups that were dropped are not in it"
        for name, key in _KEYS.items():
            if name.startswith("env/all/"):
                out[name] = replace(key, scope=Scope.KEPT, note=note)
    return out


def _sum(good: Float64, bad: Float64) -> Float64:
    return np.asarray(good + bad, dtype=np.float64)


def _one_minus(value: Float64) -> Float64:
    return np.asarray(1.0 - value, dtype=np.float64)


def _minus(step: Float64, sampled_at: Float64) -> Float64:
    return np.asarray(step - sampled_at, dtype=np.float64)


_DERIVED: tuple[Derived, ...] = (
    Derived("zero_variance_frac", ("all_right_frac", "all_wrong_frac"), _sum, "all_good + all_bad"),
    Derived("parse_failure_frac", ("env/all/format",), _one_minus, "1 - format", "format is 1 when it could be read"),
    Derived("version_lag_mean", ("progress/batch", "sampling_client/step_mean"), _minus, "batch - step_mean"),
    Derived("version_lag_max", ("progress/batch", "sampling_client/step_min"), _minus, "batch - step_min"),
)

_CONFIG: dict[str, tuple[str, ...]] = {
    "group_size": ("dataset_builder.group_size", "group_size"),
    "prompts_per_step": ("dataset_builder.batch_size", "dataset_builder.groups_per_batch", "groups_per_batch"),
    "updates_per_rollout": ("num_substeps",),
    "kl_coef": ("kl_penalty_coef",),
    "temperature": ("temperature",),
    "token_budget": ("max_tokens",),
    "loss_type": ("loss_fn",),
    "drops_zero_variance": ("remove_constant_reward_groups",),
    "learning_rate": ("learning_rate",),
    "planned_steps": ("max_steps",),
    "max_version_lag": ("async_config.max_steps_off_policy",),
    "model": ("model_name",),
}


# What the cookbook's loop does whatever its settings: rewards minus the group's mean, LoRA alone, and a KL term that
# enters the advantages.
_COOKBOOK: dict[str, tuple[object, str]] = {
    "advantage_scaling": ("none", "tinker-cookbook centres rewards by group"),
    "kl_estimator": ("k1", "tinker-cookbook: sampled minus base log-probability"),
    "kl_in_reward": (True, "tinker-cookbook adds the KL term to the advantages"),
    "uses_lora": (True, "tinker trains LoRA adapters"),
}


def _config_rules(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    """Return clip bounds from the ratio limits of loss_fn_config (0.8 and 1.28 are 0.2 below and 0.28 above 1)."""
    out: dict[str, tuple[object, str]] = {}
    for field, name, sign in (("clip_low", "clip_low_threshold", -1.0), ("clip_high", "clip_high_threshold", 1.0)):
        limit = flat.get(f"loss_fn_config.{name}")
        if isinstance(limit, (int, float)) and not isinstance(limit, bool):
            out[field] = (round(sign * (float(limit) - 1.0), 12), f"loss_fn_config.{name}")
    if any(path.startswith("async_config.") for path in flat):
        out["asynchronous"] = (True, "async_config")
    if any(path.startswith("dataset_builder.") for path in flat):  # the cookbook's own loop, not a custom one
        out.update(_COOKBOOK)
    return out


_BY_DEFAULT = "logged by default in <log_path>/metrics.jsonl"
_METRIC = "return it in StepResult.metrics (or compute_group_rewards) of your Env: it becomes env/all/<name>"
_LOOP = (
    "not possible without code: in rl/train.py, before `ml_logger.log_metrics(metrics, step=i_batch)`, "
    "`metrics['{}'] = {}`"
)

_KNOBS: dict[str, str] = {
    "group_size": "dataset_builder.group_size",
    "prompts_per_step": "dataset_builder.batch_size",
    "updates_per_rollout": "num_substeps",
    "clip_low": "loss_fn_config.clip_low_threshold (1 - clip_low), with loss_fn=ppo",
    "clip_high": "loss_fn_config.clip_high_threshold (1 + clip_high), with loss_fn=ppo",
    "kl_coef": "kl_penalty_coef",
    "temperature": "temperature",
    "token_budget": "max_tokens",
    "loss_type": "loss_fn",
    "drops_zero_variance": "remove_constant_reward_groups",
    "learning_rate": "learning_rate",
    "planned_steps": "max_steps",
    "max_version_lag": "async_config.max_steps_off_policy",
    "asynchronous": "async_config",
    "model": "model_name",
    "curriculum": "dataset_builder (order and choice of its env groups)",
    "mixture": "dataset_builder",
    "reward_function": "step() of your Env, or compute_group_rewards of its EnvGroupBuilder",
    "sampler_correction": "loss_fn=importance_sampling or loss_fn=ppo",
    "eval_every": "eval_every and evaluator_builders",
    "checkpoint_every": "save_every",
    "resume_from": "load_checkpoint_path",
}

_HOW_TO_LOG: dict[str, str] = {
    "reward_mean": _BY_DEFAULT,
    "reward_part/*": _METRIC,
    "reward_family/*": "return the family in logging_tags() of your EnvGroupBuilder",
    "success_frac": "metrics={'correct': float(is_right)} in StepResult of your Env",
    "success_tier/*": "return the tier in logging_tags() of your EnvGroupBuilder",
    "parse_failure_frac": "metrics={'format': float(could_be_read)} in StepResult of your Env",
    "verifier_error_frac": _METRIC,
    "zero_variance_frac": _BY_DEFAULT,
    "reward_std": _LOOP.format("reward_std", "numpy.std(rewards)"),
    "length_max": _LOOP.format("length_max", "max(lengths)"),
    "length_right_mean": "metrics={'length_right_mean': float(n_tokens)} in StepResult, for right answers alone",
    "all_wrong_frac": _BY_DEFAULT,
    "all_right_frac": _BY_DEFAULT,
    "length_mean": _BY_DEFAULT,
    "prompt_length_mean": _BY_DEFAULT,
    "truncated_frac": "metrics={'stop/length': float(stop_reason == 'length')} in StepResult of your Env",
    "stop_frac/*": "metrics={f'stop/{r}': float(stop_reason == r) for r in ('stop', 'length')} in StepResult",
    "turns_mean": _BY_DEFAULT,
    "tool_failure_frac": _METRIC,
    "entropy": _BY_DEFAULT,
    "learning_rate": _BY_DEFAULT,
    "kl_ref": "kl_penalty_coef=0.001 kl_reference_config.base_model=<the base model>",
    "kl_old_new": "compute_post_kl=True",
    "kl_sampler_trainer": _BY_DEFAULT,
    "version_lag_mean": "logged when async_config is set",
    "version_lag_max": "logged when async_config is set",
    "step_time_s": _BY_DEFAULT,
    "evals": "eval_every=20 and an RLTestSetEvaluator in evaluator_builders",
    "rollouts": "rollout_json_export=True  # iteration_*/train_rollout_summaries.jsonl",
    "config": "config.json in log_path is written by default",
    "checkpoints": "save_every=20",
}

ADAPTER = Adapter(
    info=TrainerInfo(
        name="tinker-cookbook",
        knobs=_KNOBS,
        how_to_log=_HOW_TO_LOG,
        step_base=0,
        defaults={
            "kl_coef": "0, off (tinker-cookbook 0.5)",
            "updates_per_rollout": "1, num_substeps (tinker-cookbook 0.5)",
            "loss_type": "importance_sampling, unclipped (tinker-cookbook 0.5)",
            "temperature": "1.0 (tinker-cookbook 0.5)",
            "drops_zero_variance": "off (tinker-cookbook 0.5)",
            "eval_every": "20 (tinker-cookbook 0.5)",
        },
    ),
    matches=_matches,
    step_keys=("step", "progress/batch", "progress/step"),
    keys=_KEYS,
    patterns=_PATTERNS,
    evals=_EVALS,
    derived=_DERIVED,
    ignore=_IGNORED,
    config=_CONFIG,
    refine=_refine,
    config_rules=_config_rules,
)
