"""TRL's GRPOTrainer: keys of every release since 0.14, and of the experimental asynchronous trainer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from rlvitals.ingest.adapter import Adapter, EvalKey, Key
from rlvitals.ingest.configmap import lookup
from rlvitals.schema import Direction, RunConfig, TrainerInfo

# Which standard deviation `reward_std` is, by release (read from the releases' sources):
# up to 0.21 mean within-group std; 0.22.0 and 0.22.1 batch std (swapped branches); 0.22.2 to 0.26 the std used for
# scaling (within group by default); from 0.27 std over the whole batch.
_SWAPPED = ((0, 22, 0), (0, 22, 1))
_BATCH_STD_SINCE = (0, 27, 0)

_TIES = (  # measured: docs/measurements.md, "TRL's zero-variance share misses tied groups"
    "misses tied groups where torch.std of equal float32 rewards rounds above 1e-8: eight rewards of 1.2 count as mixed"
)

KEYS: dict[str, Key] = {
    "reward": Key("reward_mean"),
    "reward_std": Key("reward_std"),
    "frac_reward_zero_std": Key("zero_variance_frac", note=_TIES),
    "completions/mean_length": Key("length_mean"),
    "completion_length": Key("length_mean"),
    "completions/min_length": Key("length_min"),
    "completions/max_length": Key("length_max"),
    "completions/mean_terminated_length": Key("terminated_length_mean"),
    "completions/clipped_ratio": Key("truncated_frac", estimator="no stop token"),
    "kl": Key("kl_ref", estimator="k3", direction=Direction.TO_REFERENCE),
    "entropy": Key("entropy", estimator="full vocabulary"),
    "clip_ratio/region_mean": Key("clip_frac", estimator="either side"),
    "clip_ratio": Key("clip_frac", estimator="either side"),
    "cispo_clip_ratio": Key("clip_frac", estimator="token", note="CISPO: share of clipped importance weights"),
    "clip_ratio/low_mean": Key("clip_low_frac"),
    "clip_ratio/high_mean": Key("clip_high_frac"),
    "sampling/sampling_logp_difference/mean": Key("logprob_gap_mean"),
    "sampling/sampling_logp_difference/max": Key("logprob_gap_max"),
    "sampling/importance_sampling_ratio/mean": Key("sampler_ratio_mean", estimator="after truncation"),
    "sampling/importance_sampling_ratio/min": Key("sampler_ratio_min", estimator="after truncation"),
    "sampling/importance_sampling_ratio/max": Key("sampler_ratio_max", estimator="after truncation"),
    "loss": Key("loss"),
    "policy_loss": Key("policy_loss"),
    "grad_norm": Key("grad_norm"),
    "learning_rate": Key("learning_rate"),
    "num_tokens": Key("tokens_total"),
    "step_time": Key("step_time_s"),
    "epoch": Key("epoch"),
    "tools/failure_frequency": Key("tool_failure_frac"),
    "sample/staleness_mean": Key("version_lag_mean"),
    "sample/staleness_max": Key("version_lag_max"),
    "ratio": Key("ratio_mean"),
    "rollout/turns_mean": Key("turns_mean"),
}

PATTERNS: tuple[tuple[str, Key], ...] = (
    ("rewards/{}/mean", Key("reward_part/{}")),
    ("rewards/{}/std", Key("reward_part_std/{}")),
    ("rewards/{}", Key("reward_part/{}")),
)

EVALS: tuple[EvalKey, ...] = (
    EvalKey("eval_rewards/{}/mean", "{}", metric="reward"),
    EvalKey("eval_reward", "reward", metric="reward"),
)

IGNORE = (
    "clip_ratio/low_min", "clip_ratio/high_max", "completions/min_terminated_length",
    "completions/max_terminated_length", "tools/{}", "profiling/{}", "sample/{}", "batch/{}", "rollout/{}", "perf/{}",
    "total_flos", "train_loss", "num_input_tokens_seen", "aux_loss", "vespo/{}", "entropy_coef", "mean_token_accuracy",
    "eval_{}",
)  # fmt: skip

CONFIG: dict[str, tuple[str, ...]] = {
    "group_size": ("num_generations",),
    "updates_per_rollout": ("num_iterations",),
    "clip_low": ("epsilon",),
    "clip_high": ("epsilon_high", "epsilon"),
    "kl_coef": ("beta",),
    "entropy_coef": ("entropy_coef",),
    "reference_reset_steps": ("ref_model_sync_steps",),
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "top_k": ("top_k",),
    "min_p": ("min_p",),
    "token_budget": ("max_completion_length",),
    "loss_type": ("loss_type",),
    "importance_level": ("importance_sampling_level",),
    "advantage_scaling": ("scale_rewards",),
    "reward_aggregation": ("multi_objective_aggregation",),
    "sampler_correction": ("vllm_importance_sampling_correction",),
    "prompt_budget": ("max_prompt_length",),
    "context_length": ("vllm_max_model_length",),
    "uses_lora": ("use_peft",),
    "masks_truncated": ("mask_truncated_completions",),
    "learning_rate": ("learning_rate",),
    "lr_schedule": ("lr_scheduler_type",),
    "warmup_steps": ("warmup_steps",),
    "planned_steps": ("max_steps",),
    "max_grad_norm": ("max_grad_norm",),
    "logging_steps": ("logging_steps",),
    "model": ("model_name_or_path", "model"),
}

_AGGREGATION: dict[str, str] = {  # of each loss_type, since it exists (0.17)
    "grpo": "sequence mean",
    "sapo": "sequence mean",
    "bnpo": "token mean",
    "dapo": "token mean",
    "cispo": "token mean",
    "vespo": "token mean",
    "dr_grpo": "constant length",
    "luspo": "sequence sum",
}


def config_rules(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    """Return what follows from other settings: the loss's mean, the logits' temperature, no resets when off."""
    out: dict[str, tuple[object, str]] = {}
    sync = lookup(flat, "sync_ref_model")  # off by default; the arguments hold a period, 512, all the same
    if sync is None or str(sync[0]).strip().lower() not in ("true", "1"):
        out["reference_reset_steps"] = (None, "sync_ref_model")
    for path, value in flat.items():
        name = path.rpartition(".")[2]
        if name == "loss_type" and isinstance(value, str) and value in _AGGREGATION:
            out["loss_aggregation"] = (_AGGREGATION[value], path)
        elif name == "temperature" and path == name:
            out["trainer_temperature"] = (value, "temperature, by which TRL divides its logits too")
    return out


KNOBS: dict[str, str] = {
    "group_size": "num_generations",
    "prompts_per_step": "per_device_train_batch_size x gradient_accumulation_steps x processes / num_generations",
    "updates_per_rollout": "num_iterations (or a larger steps_per_generation)",
    "clip_low": "epsilon",
    "clip_high": "epsilon_high",
    "kl_coef": "beta",
    "entropy_coef": "entropy_coef (TRL 1.8 and newer)",
    "reference_reset_steps": "sync_ref_model and ref_model_sync_steps",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "token_budget": "max_completion_length",
    "loss_type": "loss_type",
    "importance_level": "importance_sampling_level",
    "advantage_scaling": "scale_rewards",
    "masks_truncated": "mask_truncated_completions",
    "learning_rate": "learning_rate",
    "lr_schedule": "lr_scheduler_type",
    "warmup_steps": "warmup_steps",
    "planned_steps": "max_steps",
    "max_grad_norm": "max_grad_norm",
    "logging_steps": "logging_steps",
    "loads_reference": "beta (a value above 0 loads the reference)",
    "sampler_correction": "vllm_importance_sampling_correction",
    "context_length": "vllm_max_model_length",
    "reward_aggregation": "multi_objective_aggregation",
    "curriculum": "train_dataset (its order and choice)",
    "mixture": "train_dataset",
    "verifier": "reward_funcs",
    "parser": "reward_funcs",
    "reward_function": "reward_funcs",
    "reward_weights": "reward_weights",
    "eval_every": "eval_strategy and eval_steps",
    "checkpoint_every": "save_strategy and save_steps",
    "resume_from": "trainer.train(resume_from_checkpoint=...)",
}

HOW_TO_LOG: dict[str, str] = {
    "reward_mean": "always logged as `reward`",
    "reward_part/*": "pass each component as its own function in `reward_funcs`",
    "reward_std": "always logged as `reward_std`",
    "reward_family/*": "call `log_metric(f'reward_family/{family}', value)` in a reward function (TRL 1.0 and newer)",
    "zero_variance_frac": "logged as `frac_reward_zero_std` from TRL 0.18 on, with scale_rewards='group'",
    "success_frac": "add a reward function with weight 0 that returns 1.0 for a solved task (`reward_weights`)",
    "success_tier/*": "call `log_metric(f'success_tier/{tier}', value)` in a reward function (TRL 1.0 and newer)",
    "parse_failure_frac": "call `log_metric('parse_failure_frac', value)` in a reward function (TRL 1.0 and newer); "
    "before, a reward function of that name with weight 0 in `reward_weights`",
    "truncated_frac": "logged as `completions/clipped_ratio` from TRL 0.17 on",
    "length_mean": "logged as `completions/mean_length`",
    "length_max": "logged as `completions/max_length` from TRL 0.16 on",
    "length_right_mean": "call `log_metric('length_right_mean', value)` in a reward function, with `len(ids)` of "
    "`completion_ids` (TRL 1.0 and newer)",
    "stop_frac/*": "call `log_metric('stop_frac/eos', value)` in a reward function: the share of `completion_ids` that "
    "end with the stop token (TRL 1.0 and newer)",
    "kl_ref": "set `beta` above 0 (a tiny value is enough); with beta=0 TRL computes no KL",
    "entropy": "logged as `entropy` from TRL 0.20 on",
    "clip_frac": "logged as `clip_ratio/region_mean` from TRL 0.17 on",
    "logprob_gap_mean": "set `use_vllm=True` (TRL 0.23 and newer log `sampling/sampling_logp_difference/mean`)",
    "version_lag_mean": "no lag to log: the synchronous trainer samples with the weights that it trains; the "
    "asynchronous one logs `sample/staleness_mean`",
    "evals": "pass `eval_dataset` and set `eval_strategy='steps', eval_steps=50`",
    "rollouts": "set `log_completions=True`, and call `log_extra('verifier_output', texts)` in the reward function",
    "config": "`json.dump(args.to_dict(), open(f'{args.output_dir}/training_args.json', 'w'), default=str)` before "
    "`trainer.train()`",
    "checkpoints": "set `save_strategy='steps', save_steps=50`",
}

DEFAULTS: dict[str, str] = {
    "kl_coef": "beta 0.04 up to TRL 0.18, 0.0 from 0.19",
    "temperature": "0.9 up to TRL 0.17, 1.0 from 0.18",
    "token_budget": "max_completion_length 256",
    "loss_type": "per-sequence mean up to 0.15, token mean in 0.16, bnpo 0.17 to 0.21, dapo from 0.22",
    "group_size": "num_generations 8",
    "clip_low": "epsilon 0.2",
    "updates_per_rollout": "num_iterations 1",
}


def with_prefix(prefix: str, keys: Mapping[str, Key]) -> dict[str, Key]:
    """Return the keys and, after them, the same keys under a prefix (W&B and TensorBoard write `train/reward`)."""
    return {**keys, **{prefix + name: key for name, key in keys.items()}}


def matches(keys: frozenset[str]) -> int:
    """Score the fingerprint: `reward` with a GRPO key that only this family writes."""
    bare = {key.removeprefix("train/") for key in keys}
    if "reward" not in bare:
        return 0
    if bare & {"completions/mean_length", "completions/clipped_ratio", "clip_ratio/region_mean"}:
        return 80
    if "completion_length" in bare and any(key.startswith("rewards/") for key in bare):
        return 75
    if any(re.fullmatch(r"rewards/.+", key) for key in bare) or {"completion_length", "reward_std"} <= bare:
        return 60
    return 55 if {"frac_reward_zero_std", "reward_std"} <= bare else 0


def version_of(config: RunConfig) -> tuple[int, ...] | None:
    """Return TRL's version as numbers, None when it is not known."""
    text = config.versions.get("trl", "")
    parts = re.findall(r"\d+", text)[:3]
    return tuple(int(p) for p in parts) + (0,) * (3 - len(parts)) if parts else None


def reward_std_kind(keys: frozenset[str], config: RunConfig) -> tuple[str, str]:
    """Return ("group" or "batch", note) for `reward_std`: from the version, else from the generation of the keys."""
    version = version_of(config)
    if version is not None:
        if version in _SWAPPED:
            return "batch", "TRL 0.22.0 and 0.22.1 swap the two; frac_reward_zero_std is a batch flag there"
        return ("batch" if version >= _BATCH_STD_SINCE or config.advantage_scaling == "batch" else "group"), ""
    bare = {key.removeprefix("train/") for key in keys}
    if "step_time" in bare:
        return "batch", "taken for TRL 0.27 or newer, because step_time is logged"
    return "group", "taken for TRL before 0.27, because step_time is not logged"


def refine(keys: frozenset[str], config: RunConfig) -> Mapping[str, Key]:
    """Set what depends on the release: the kind of `reward_std`, and the asynchronous trainer's other `kl`."""
    kind, note = reward_std_kind(keys, config)
    out = {"reward_std": Key("reward_std", estimator=kind, note=note)}
    if any(key.removeprefix("train/").startswith("sample/staleness") for key in keys):
        out["kl"] = Key(
            "kl_old_new", estimator="k3", direction=Direction.OLD_NEW,
            note="the asynchronous trainer's kl is between old and new policy",
        )  # fmt: skip
    if config.importance_level == "sequence":
        for name in ("clip_ratio/region_mean", "clip_ratio/low_mean", "clip_ratio/high_mean"):
            out[name] = replace(KEYS[name], estimator="sequence")
    if version_of(config) in _SWAPPED or config.advantage_scaling == "batch":
        out["frac_reward_zero_std"] = Key("zero_variance_frac", note="a flag of the whole batch, not a share of groups")
    return with_prefix("train/", out)


def _prefixed(patterns: tuple[tuple[str, Key], ...]) -> tuple[tuple[str, Key], ...]:
    return (*patterns, *(("train/" + text, key) for text, key in patterns))


ADAPTER = Adapter(
    info=TrainerInfo(name="TRL", knobs=KNOBS, how_to_log=HOW_TO_LOG, step_base=1, defaults=DEFAULTS),
    matches=matches,
    step_keys=("step", "global_step", "train/global_step", "Step"),
    keys=with_prefix("train/", KEYS),
    patterns=_prefixed(PATTERNS),
    evals=(
        *EVALS,
        EvalKey("eval/rewards/{}/mean", "{}", metric="reward"),
        EvalKey("eval/reward", "reward", metric="reward"),
    ),
    ignore=(*IGNORE, *("train/" + text for text in IGNORE), "eval/{}"),
    config=CONFIG,
    refine=refine,
    config_rules=config_rules,
)
