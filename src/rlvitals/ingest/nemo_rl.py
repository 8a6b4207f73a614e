"""NVIDIA NeMo-RL's GRPO: TensorBoard, W&B, MLflow and SwanLab; 0.3 to 0.7."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rlvitals.ingest.adapter import Adapter, Derived, EvalKey, Key
from rlvitals.ingest.nemo_rl_words import INFO
from rlvitals.schema import Direction, Float64, RunConfig, Scope

_REF, _SMP = Direction.TO_REFERENCE, Direction.SAMPLER_TRAINER

_BASELINE = (
    "share of samples whose group baseline is exactly 0 or 1: right for 0/1 rewards; ties at other rewards are missed, "
    "and with the leave-one-out baseline a lone success counts as 0"
)
_DROPPED = "use_dynamic_sampling is on: groups without variance are not in it"
_LAST_BATCH = "of the last generation batch when use_dynamic_sampling is on"

_KEYS: dict[str, Key] = {
    "reward": Key("reward_mean", note="before dynamic sampling drops groups"),
    "mean_total_reward": Key("reward_mean", note=_LAST_BATCH),
    "min_total_reward": Key("reward_min", note=_LAST_BATCH),
    "max_total_reward": Key("reward_max", note=_LAST_BATCH),
    "baseline_reward/pct_mixed": Key(
        "zero_variance_frac", scale=-0.01, offset=1.0, transform="1 - percent / 100", note=_BASELINE
    ),
    "baseline_reward/pct_0": Key("all_wrong_frac", scale=0.01, transform="percent -> fraction", note=_BASELINE),
    "baseline_reward/pct_1": Key("all_right_frac", scale=0.01, transform="percent -> fraction", note=_BASELINE),
    "advantages/mean": Key("advantage_mean", estimator="token mean"),
    "advantages/max": Key("advantage_max"),
    "advantages/min": Key("advantage_min"),
    "mean_gen_tokens_per_sample": Key("length_mean", note=_LAST_BATCH),
    "max_gen_tokens_per_sample": Key("length_max", note=_LAST_BATCH),
    "mean_prompt_length": Key("prompt_length_mean"),
    "truncation_rate": Key("truncated_frac", estimator="at budget", note=_LAST_BATCH),
    "avg_turns_per_sample": Key("turns_mean"),
    "natural_termination_rate": Key("stop_frac/natural_termination"),
    "max_turns_reached_rate": Key("stop_frac/max_turns_reached"),
    "invalid_tool_call_rate": Key("tool_failure_frac", note="assistant messages with an invalid tool call"),
    "kl_penalty": Key("kl_ref", estimator="k3", direction=_REF, note="already divided by its coefficient"),
    "approx_entropy": Key("entropy", estimator="sampled", note="importance-weighted -log p of the sampled tokens"),
    "gen_kl_error": Key(
        "kl_sampler_trainer", estimator="k3", direction=_SMP, note="of the type reference_policy_kl_type, clamps off"
    ),
    "token_mult_prob_error": Key(
        "logprob_gap_mean", offset=-1.0, transform="x - 1", direction=_SMP,
        note="mean of exp(|difference|), minus 1: an upper bound that one outlier token can dominate",
    ),
    "sampling_importance_ratio": Key("sampler_ratio_mean", estimator="token", direction=_SMP),
    "probs_ratio": Key("ratio_mean"),
    "loss": Key("loss"),
    "grad_norm": Key("grad_norm"),
    "lr": Key("learning_rate"),
    "avg_trajectory_age": Key("version_lag_mean"),
    "total_num_tokens": Key("tokens_total", note="prompt and response tokens of the step"),
}  # fmt: skip

_KEPT_ONLY: tuple[str, ...] = (
    "mean_prompt_length", "approx_entropy", "kl_penalty", "advantages/mean", "advantages/max", "advantages/min",
    "baseline_reward/pct_mixed", "baseline_reward/pct_0", "baseline_reward/pct_1",
)  # fmt: skip

_OTHER: dict[str, Key] = {
    "timing/train/total_step_time": Key("step_time_s"),
    "performance/tokens_per_sec_per_gpu": Key("tokens_per_second", note="per GPU"),
}

_IGNORED: tuple[str, ...] = (
    "wd", "filtered_reward", "advantages/{}", "baseline_reward/{}", "probs_ratio_{}", "policy_kl_error",
    "js_divergence_error", "is_oob_ratio", "num_valid_samples", "global_valid_{}", "{}_seq_mult_prob_error",
    "{}_seq_mult_prob_error_after_mask", "num_masked_seqs{}", "masked_correct_pct", "total_turns",
    "max_turns_per_sample", "{}_tokens_per_sample", "{}_per_turn/{}", "positive_nll_loss", "buffer_size",
    "dynamic_sampling_{}", "num_{}", "moe/{}", "mtp/{}", "draft_{}", "histogram/{}", "r3/{}", "reward_penalties/{}",
    "per_worker_token_counts{}", "malformed_thinking_rate", "generation_logger_metrics{}", "global_step",
    "{}trajectory{}",
)  # fmt: skip

_EVALS: tuple[EvalKey, ...] = (
    EvalKey("validation/accuracy", "validation accuracy", metric="reward", note="the mean reward of the samples"),
    EvalKey("validation/pass_k", "validation pass@k"),
)


def _prefixed(keys: Mapping[str, Key]) -> dict[str, Key]:
    return {**{f"train/{name}": key for name, key in keys.items()}, **_OTHER}


def _matches(keys: frozenset[str]) -> int:
    if keys & {"train/token_mult_prob_error", "train/baseline_reward/pct_mixed"}:
        return 97
    if "train/mean_gen_tokens_per_sample" in keys:
        return 90
    return 70 if {"train/global_valid_toks", "train/probs_ratio"} <= keys else 0


def _refine(keys: frozenset[str], config: RunConfig) -> dict[str, Key]:
    """Return the keys whose meaning depends on the settings."""
    out: dict[str, Key] = {}
    if config.kl_estimator is not None:
        for name in ("kl_penalty", "gen_kl_error"):
            out[name] = replace(_KEYS[name], estimator=config.kl_estimator)
    if config.importance_level == "sequence":
        out["sampling_importance_ratio"] = replace(_KEYS["sampling_importance_ratio"], estimator="sequence")
    if config.drops_zero_variance or "train/filtered_reward" in keys:
        for name in _KEPT_ONLY:
            base = out.get(name, _KEYS[name])
            note = f"{base.note}; {_DROPPED}" if base.note else _DROPPED
            out[name] = replace(base, scope=Scope.KEPT, note=note)
    return {f"train/{name}": key for name, key in out.items()}


def _ratio(value: Float64) -> Float64:
    """Return the ratio; -1 is written where a step has no valid token."""
    return np.where(np.asarray(value) < 0, np.nan, value)


_DERIVED: tuple[Derived, ...] = (
    Derived("ratio_max", ("train/probs_ratio_max",), _ratio, "-1 (no valid token) left out"),
    Derived("ratio_min", ("train/probs_ratio_min",), _ratio, "-1 (no valid token) left out"),
)

_CONFIG: dict[str, tuple[str, ...]] = {
    "group_size": ("grpo.num_generations_per_prompt",),
    "prompts_per_step": ("grpo.num_prompts_per_step",),
    "clip_low": ("loss_fn.ratio_clip_min",),
    "clip_high": ("loss_fn.ratio_clip_max",),
    "kl_coef": ("loss_fn.reference_policy_kl_penalty",),
    "kl_estimator": ("loss_fn.reference_policy_kl_type",),
    "kl_in_reward": ("loss_fn.use_kl_in_reward",),
    "temperature": ("policy.generation.temperature",),
    "top_p": ("policy.generation.top_p",),
    "top_k": ("policy.generation.top_k",),
    "token_budget": ("policy.generation.max_new_tokens",),
    "context_length": ("policy.max_total_sequence_length",),
    "sampler_correction": ("loss_fn.use_importance_sampling_correction",),
    "advantage_estimator": ("grpo.adv_estimator.name",),
    "drops_zero_variance": ("grpo.use_dynamic_sampling",),
    "masks_truncated": ("grpo.overlong_filtering",),
    "learning_rate": ("policy.optimizer.kwargs.lr", "policy.megatron_cfg.optimizer.lr"),
    "planned_steps": ("grpo.max_num_steps",),
    "max_grad_norm": ("policy.max_grad_norm",),
    "asynchronous": ("grpo.async_grpo.enabled",),
    "max_version_lag": ("grpo.async_grpo.max_trajectory_age_steps",),
    "model": ("policy.model_name",),
}


def _config_rules(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    """Return the fields that several NeMo-RL settings decide together."""
    out: dict[str, tuple[object, str]] = {}
    scaled = flat.get("grpo.normalize_rewards")
    if isinstance(scaled, bool):
        out["advantage_scaling"] = ("group" if scaled else "none", "grpo.normalize_rewards")
    by_token = flat.get("loss_fn.token_level_loss")
    if isinstance(by_token, bool):
        out["loss_aggregation"] = ("token mean" if by_token else "sequence mean", "loss_fn.token_level_loss")
    by_sequence = flat.get("loss_fn.sequence_level_importance_ratios")
    if isinstance(by_sequence, bool):
        out["importance_level"] = (
            "sequence" if by_sequence else "token", "loss_fn.sequence_level_importance_ratios"
        )  # fmt: skip
    if flat.get("loss_fn.use_cispo") is True:
        out["loss_type"] = ("cispo", "loss_fn.use_cispo")
    lora = flat.get("policy.dtensor_cfg.lora_cfg.enabled")
    if isinstance(lora, bool):
        out["uses_lora"] = (lora, "policy.dtensor_cfg.lora_cfg.enabled")
    prompts, group, batch = (
        _number(flat, path)
        for path in ("grpo.num_prompts_per_step", "grpo.num_generations_per_prompt", "policy.train_global_batch_size")
    )
    if prompts and group and batch:
        paths = "num_prompts_per_step x num_generations_per_prompt / train_global_batch_size"
        out["updates_per_rollout"] = (max(1.0, prompts * group / batch), paths)
    if flat.get("grpo.async_grpo.enabled") is False:
        out["max_version_lag"] = (None, "")
    gpus, nodes = _number(flat, "cluster.gpus_per_node"), _number(flat, "cluster.num_nodes")
    if gpus and nodes:
        out["gpus"] = (gpus * nodes, "cluster.gpus_per_node x cluster.num_nodes")
    return out


def _number(flat: Mapping[str, object], path: str) -> float | None:
    value = flat.get(path)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


ADAPTER = Adapter(
    info=INFO,
    matches=_matches,
    step_keys=("step", "train/global_step", "train/step", "_step"),
    keys=_prefixed(_KEYS),
    evals=_EVALS,
    derived=_DERIVED,
    ignore=(
        *(f"train/{text}" for text in _IGNORED),
        "timing/{}", "performance/{}", "refit/{}", "ray/{}", "validation/{}", "gpu_monitoring/{}", "data_plane/{}",
    ),
    config=_CONFIG,
    refine=_refine,
    config_rules=_config_rules,
)  # fmt: skip
