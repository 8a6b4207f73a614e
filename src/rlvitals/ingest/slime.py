"""slime (and forks with its log names): console, TensorBoard and W&B; 0.1 to 0.3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rlvitals.ingest.adapter import Adapter, Derived, EvalKey, Key, RawSum
from rlvitals.ingest.slime_steps import on_rollout_steps
from rlvitals.schema import Direction, Float64, RunConfig, Scope, TrainerInfo

_OLD, _REF, _SMP = Direction.OLD_NEW, Direction.TO_REFERENCE, Direction.SAMPLER_TRAINER

_PER_ROLLOUT = "mean over rollouts of token means, unless calculate_per_token_loss"
_TIED = "rollout/zero_std/count_*"  # the sum of the sparse counts, see _SUMS
_FILTER = "rollout/dynamic_filter/"  # counts of what a dynamic sampling filter dropped
_LOSS_KL = "estimator is kl_loss_type (k1 by default)"

_KEYS: dict[str, Key] = {
    "rollout/raw_reward": Key("reward_mean", note="as the reward function gave it"),
    "rollout/response_len/mean": Key("length_mean", note="tool tokens left out"),
    "rollout/response_len/min": Key("length_min", note="tool tokens left out"),
    "rollout/response_len/max": Key("length_max", note="tool tokens left out"),
    "rollout/response_lengths": Key("length_mean", note="tool tokens included"),
    "rollout/truncated_ratio": Key("truncated_frac", estimator="finish reason"),
    "rollout/truncated": Key("truncated_frac", estimator="finish reason"),
    "rollout/repetition_frac": Key("repetition_frac"),
    "rollout/advantages": Key("advantage_mean", estimator="sequence mean"),
    "rollout/log_probs": Key("surprisal_mean", scale=-1.0, transform="sign flipped", note=_PER_ROLLOUT),
    "train/entropy_loss": Key(
        "entropy", estimator="full vocabulary", note=f"the entropy itself, despite the name; {_PER_ROLLOUT}"
    ),
    "rollout/entropy": Key("entropy", estimator="full vocabulary", note=_PER_ROLLOUT),
    "train/kl_loss": Key("kl_ref", direction=_REF, note=f"{_LOSS_KL}; {_PER_ROLLOUT}"),
    "train/ppo_kl": Key("kl_old_new", estimator="k1", direction=_OLD, note="not the distance to the reference"),
    "train/pg_clipfrac": Key("clip_frac", estimator="token", note=_PER_ROLLOUT),
    "train/loss": Key("loss"),
    "train/pg_loss": Key("policy_loss"),
    "train/grad_norm": Key("grad_norm"),
    "train/lr-pg_0": Key("learning_rate"),
    "train/lr-pg_1": Key("learning_rate"),
    "train/train_rollout_logprob_abs_diff": Key("logprob_gap_mean", direction=_SMP, note=_PER_ROLLOUT),
    "train/ois": Key("sampler_ratio_mean", estimator="token", direction=_SMP, note=_PER_ROLLOUT),
    "perf/step_time": Key("step_time_s"),
    "perf/tokens_per_gpu_per_sec": Key("tokens_per_second", note="generated, per GPU of the sampler"),
}  # fmt: skip

_PATTERNS: tuple[tuple[str, Key], ...] = (
    ("rollout/error_cat/{}", Key("stop_frac/{}", note="share of rollouts by log_reward_category")),
)  # fmt: skip

_SUMS = (RawSum(_TIED, "rollout/zero_std/count_{}", "rollout/response_len/mean"),)

_IGNORED: tuple[str, ...] = (
    "rollout/{}", "train/{}", "perf/{}", "eval/{}", "multi_turn/{}", "passrate/{}",
)  # fmt: skip

# Statistics that slime logs per evaluation set beside its score.
_NO_SCORES = ("eval/{}-truncated_ratio", "eval/{}/{}", "eval/step")

_EVALS: tuple[EvalKey, ...] = (
    EvalKey("eval/{}-pass@{}", "{0} pass@{1}"),
    EvalKey("eval/{}", "{}", metric="reward", note="mean reward", but_not=_NO_SCORES),
)


def _matches(keys: frozenset[str]) -> int:
    if "rollout/raw_reward" in keys:
        return 96
    if "rollout/response_len/mean" in keys or {"train/pg_clipfrac", "train/ppo_kl"} <= keys:
        return 85
    return 0


def _refine(keys: frozenset[str], config: RunConfig) -> dict[str, Key]:
    """Return the keys whose meaning depends on the settings; counts become shares when the batch size is known."""
    out: dict[str, Key] = {}
    if config.kl_estimator is not None:
        out["train/kl_loss"] = replace(_KEYS["train/kl_loss"], estimator=config.kl_estimator, note=_PER_ROLLOUT)
    if config.importance_level == "sequence":
        out["train/pg_clipfrac"] = replace(_KEYS["train/pg_clipfrac"], estimator="sequence")
    if config.prompts_per_step is not None:
        out[_TIED] = Key(
            "zero_variance_frac",
            scale=1.0 / config.prompts_per_step,
            transform=f"sum of counts / {config.prompts_per_step} prompts per step",
            note="a count that is missing is 0",
        )
    if config.drops_zero_variance or any(key.startswith(_FILTER) for key in keys):
        note = "a dynamic sampling filter is on: groups that were dropped are not in it"
        for name, base in {**_KEYS, **out}.items():
            if name.startswith("rollout/"):
                out[name] = replace(base, scope=Scope.KEPT, note=f"{base.note}; {note}" if base.note else note)
    return out


def _minus(now: Float64, reference: Float64) -> Float64:
    return np.asarray(now - reference, dtype=np.float64)


_DERIVED: tuple[Derived, ...] = (
    Derived("kl_ref", ("rollout/log_probs", "rollout/ref_log_probs"), _minus, "log_probs - ref_log_probs",
            "before the update", estimator="k1"),
)  # fmt: skip

_CONFIG: dict[str, tuple[str, ...]] = {
    "group_size": ("n_samples_per_prompt",),
    "prompts_per_step": ("rollout_batch_size",),
    "updates_per_rollout": ("num_steps_per_rollout",),
    "clip_low": ("eps_clip",),
    "clip_high": ("eps_clip_high", "eps_clip"),
    "kl_estimator": ("kl_loss_type",),
    "entropy_coef": ("entropy_coef",),
    "reference_reset_steps": ("ref_update_interval",),
    "temperature": ("rollout_temperature",),
    "top_p": ("rollout_top_p",),
    "top_k": ("rollout_top_k",),
    "token_budget": ("rollout_max_response_len",),
    "prompt_budget": ("rollout_max_prompt_len",),
    "context_length": ("rollout_max_context_len",),
    "sampler_correction": ("use_tis",),
    "advantage_estimator": ("advantage_estimator",),
    "advantage_scaling": ("grpo_std_normalization",),
    "learning_rate": ("lr",),
    "lr_schedule": ("lr_decay_style",),
    "warmup_steps": ("lr_warmup_iters",),
    "planned_steps": ("num_rollout",),
    "max_grad_norm": ("clip_grad",),
    "max_version_lag": ("update_weights_interval",),
    "model": ("hf_checkpoint",),
}


def _config_rules(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    """Return the fields that several slime arguments decide together."""
    out: dict[str, tuple[object, str]] = {}
    in_loss, shaped = flat.get("use_kl_loss"), _number(flat, "kl_coef")
    if in_loss is True:
        out["kl_coef"] = (flat.get("kl_loss_coef"), "kl_loss_coef")
        out["kl_in_reward"] = (False, "use_kl_loss")
    elif shaped is not None and shaped > 0:
        out["kl_coef"] = (shaped, "kl_coef")
        out["kl_in_reward"] = (True, "kl_coef")
    elif in_loss is False and shaped == 0:
        out["kl_coef"] = (0.0, "use_kl_loss is off and kl_coef is 0")
    how = flat.get("advantage_estimator")
    if isinstance(how, str):
        out["importance_level"] = ("sequence" if how == "gspo" else "token", "advantage_estimator")
        if how in ("gspo", "cispo"):
            out["loss_type"] = (how, "advantage_estimator")
            out["advantage_estimator"] = ("grpo", "advantage_estimator")
    if flat.get("disable_grpo_std_normalization") is True:
        out["advantage_scaling"] = ("none", "disable_grpo_std_normalization")
    per_token = flat.get("calculate_per_token_loss")
    if isinstance(per_token, bool):
        out["loss_aggregation"] = ("token mean" if per_token else "sequence mean", "calculate_per_token_loss")
    prompts, group, batch = (
        _number(flat, name) for name in ("rollout_batch_size", "n_samples_per_prompt", "global_batch_size")
    )
    if prompts and group and batch and flat.get("num_steps_per_rollout") is None:
        paths = "rollout_batch_size x n_samples_per_prompt / global_batch_size"
        out["updates_per_rollout"] = (max(1.0, prompts * group / batch), paths)
    if "dynamic_sampling_filter_path" in flat:
        out["drops_zero_variance"] = (bool(flat["dynamic_sampling_filter_path"]), "dynamic_sampling_filter_path")
    return out


def _number(flat: Mapping[str, object], path: str) -> float | None:
    value = flat.get(path)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


_BY_DEFAULT = "--use-tensorboard --tb-project-name slime  # logged by default then"
_HOOK = "--custom-rollout-log-function-path FILE.py:f  # def f(rollout_id, args, samples, extra, time): add it to extra"
_CHECK = "--log-reward-category KEY  # the reward function returns a dict; logged as rollout/error_cat/<value>"

_KNOBS: dict[str, str] = {
    "group_size": "--n-samples-per-prompt",
    "prompts_per_step": "--rollout-batch-size",
    "updates_per_rollout": "--num-steps-per-rollout (or --global-batch-size)",
    "clip_low": "--eps-clip",
    "clip_high": "--eps-clip-high",
    "kl_coef": "--kl-loss-coef with --use-kl-loss",
    "kl_estimator": "--kl-loss-type",
    "kl_in_reward": "--kl-coef",
    "entropy_coef": "--entropy-coef",
    "reference_reset_steps": "--ref-update-interval",
    "temperature": "--rollout-temperature",
    "top_p": "--rollout-top-p",
    "top_k": "--rollout-top-k",
    "token_budget": "--rollout-max-response-len",
    "loss_type": "--advantage-estimator",
    "loss_aggregation": "--calculate-per-token-loss",
    "importance_level": "--advantage-estimator gspo",
    "advantage_estimator": "--advantage-estimator",
    "advantage_scaling": "--disable-grpo-std-normalization",
    "drops_zero_variance": "--dynamic-sampling-filter-path",
    "learning_rate": "--lr",
    "lr_schedule": "--lr-decay-style",
    "warmup_steps": "--lr-warmup-iters",
    "planned_steps": "--num-rollout",
    "max_grad_norm": "--clip-grad",
    "micro_batch": "--micro-batch-size (or --max-tokens-per-gpu)",
    "max_version_lag": "--update-weights-interval",
    "asynchronous": "train_async.py instead of train.py",
    "sync": "--update-weights-interval",
    "sampler_correction": "--use-tis",
    "model": "--hf-checkpoint",
    "curriculum": "--prompt-data (or --data-source-path)",
    "mixture": "--prompt-data",
    "verifier": "--rm-type or --custom-rm-path",
    "parser": "--rm-type or --custom-rm-path",
    "reward_function": "--custom-rm-path",
    "eval_every": "--eval-interval",
    "checkpoint_every": "--save-interval",
    "resume_from": "--load",
}

_HOW_TO_LOG: dict[str, str] = {
    "reward_mean": _BY_DEFAULT,
    "reward_std": _HOOK,
    "reward_part/*": _HOOK,
    "reward_family/*": _HOOK,
    "success_frac": _HOOK,
    "success_tier/*": _HOOK,
    "parse_failure_frac": _CHECK,
    "verifier_error_frac": _CHECK,
    "zero_variance_frac": "logged as counts by default; say prompts_per_step in rlvitals.toml to get the share",
    "advantage_mean": _BY_DEFAULT,
    "length_mean": _BY_DEFAULT,
    "length_min": _BY_DEFAULT,
    "length_max": _BY_DEFAULT,
    "truncated_frac": _BY_DEFAULT,
    "repetition_frac": _BY_DEFAULT,
    "entropy": _BY_DEFAULT,
    "surprisal_mean": _BY_DEFAULT,
    "policy_loss": _BY_DEFAULT,
    "grad_norm": _BY_DEFAULT,
    "learning_rate": _BY_DEFAULT,
    "clip_frac": _BY_DEFAULT,
    "kl_ref": "--use-kl-loss --kl-loss-coef 0.001 --kl-loss-type low_var_kl",
    "kl_old_new": _BY_DEFAULT,
    "logprob_gap_mean": "logged by default when the sampler returns log-probabilities",
    "sampler_ratio_mean": "--get-mismatch-metrics",
    "version_lag_mean": _HOOK,
    "step_time_s": _BY_DEFAULT,
    "evals": "--eval-interval 20 --eval-prompt-data NAME PATH --log-passrate",
    "stop_frac/*": f"{_HOOK}, from sample.status, as `stop_frac/<status>`",
    "length_right_mean": _HOOK,
    "rollouts": "--custom-rollout-log-function-path; --dump-details writes pickles, which are not read",
    "config": "put the launch command into run.sh beside the log, or use --use-wandb",
    "checkpoints": "--save-interval 20",
}

ADAPTER = Adapter(
    info=TrainerInfo(
        name="slime",
        knobs=_KNOBS,
        how_to_log=_HOW_TO_LOG,
        step_base=0,
        defaults={
            "group_size": "1 (slime 0.3): a GRPO run must raise it",
            "kl_coef": "0, off (slime 0.3)",
            "kl_estimator": "k1 (slime 0.3)",
            "clip_low": "0.2 (slime 0.3)",
            "clip_high": "as eps_clip (slime 0.3)",
            "entropy_coef": "0 (slime 0.3)",
            "temperature": "1.0 (slime 0.3)",
            "learning_rate": "1e-6 (slime 0.3)",
            "max_grad_norm": "1.0 (slime 0.3)",
            "loss_aggregation": "mean over rollouts of token means (slime 0.3)",
            "eval_every": "off (slime 0.3)",
        },
    ),
    matches=_matches,
    step_keys=("step", "rollout/step", "train/step", "eval/step", "_step"),
    keys=_KEYS,
    patterns=_PATTERNS,
    evals=_EVALS,
    derived=_DERIVED,
    ignore=_IGNORED,
    config=_CONFIG,
    refine=_refine,
    config_rules=_config_rules,
    sums=_SUMS,
    prepare=on_rollout_steps,
)
