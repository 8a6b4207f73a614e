"""rLLM in its own words: settings, what makes it log a metric, defaults."""

from __future__ import annotations

from rlvitals.schema import TrainerInfo

_BY_DEFAULT = "rllm.trainer.logger=['console','file']  # logged by default"
_EPISODES = "rllm.episode_logging.log_episodes=True  # one JSON file per episode under episode_log_dir"
_METRIC = "put it into `metrics` of the Episode that your workflow returns: logged as batch/<name>"
_ASYNC = "rllm.async_training.enable=True  # async/staleness_*"
_VERL_ONLY = "the verl backend logs it; tinker and fireworks do not"

_KNOBS: dict[str, str] = {
    "group_size": "rllm.rollout.n (training.group_size with tinker)",
    "prompts_per_step": "rllm.data.train_batch_size",
    "updates_per_rollout": "training.num_minibatches (actor.ppo_epochs and ppo_mini_batch_size with verl)",
    "clip_low": "rllm.algorithm.eps_clip",
    "clip_high": "rllm.algorithm.eps_clip_high",
    "kl_coef": "rllm.algorithm.kl_beta",
    "entropy_coef": "actor_rollout_ref.actor.entropy_coeff (verl backend)",
    "temperature": "rllm.rollout.train.temperature",
    "top_p": "rllm.rollout.train.top_p",
    "token_budget": "rllm.data.max_response_length",
    "loss_type": "rllm.algorithm.loss_fn",
    "loss_aggregation": "rllm.algorithm.loss_agg_mode",
    "advantage_estimator": "rllm.algorithm.adv_estimator",
    "advantage_scaling": "rllm.algorithm.norm_adv_by_std_in_grpo",
    "drops_zero_variance": "rllm.rejection_sample.filter_uniform_groups (with rllm.rejection_sample.enable)",
    "masks_truncated": "rllm.compact_filtering.mask_max_response_length_exceeded (with .enable)",
    "learning_rate": "training.learning_rate (actor_rollout_ref.actor.optim.lr with verl)",
    "lr_schedule": "rllm.algorithm.lr_schedule",
    "warmup_steps": "rllm.algorithm.warmup_steps",
    "planned_steps": "rllm.trainer.total_batches",
    "max_grad_norm": "actor_rollout_ref.actor.grad_clip (verl backend)",
    "max_version_lag": "rllm.async_training.staleness_threshold",
    "asynchronous": "rllm.async_training.enable",
    "sync": "rllm.async_training.trigger_parameter_sync_step",
    "sampler_correction": "rllm.algorithm.rollout_correction.tis_mode",
    "model": "model.name",
    "curriculum": "the order of the training data set",
    "mixture": "the training data set",
    "verifier": "the reward that your workflow or evaluator gives",
    "parser": "the reward that your workflow or evaluator gives",
    "reward_function": "the reward that your workflow or evaluator gives",
    "eval_every": "rllm.trainer.test_freq",
    "checkpoint_every": "rllm.trainer.save_freq",
    "resume_from": "training.resume_mode=resume_path training.resume_from_path",
}

_HOW_TO_LOG: dict[str, str] = {
    "reward_mean": _BY_DEFAULT,
    "reward_std": _BY_DEFAULT,
    "reward_min": _BY_DEFAULT,
    "reward_max": _BY_DEFAULT,
    "reward_part/*": _METRIC,
    "reward_family/*": _EPISODES + ", with task.data_source",
    "success_frac": _METRIC,
    "success_tier/*": _METRIC,
    "parse_failure_frac": _METRIC,
    "verifier_error_frac": _METRIC,
    "zero_variance_frac": _BY_DEFAULT,
    "all_wrong_frac": _BY_DEFAULT,
    "all_right_frac": _BY_DEFAULT,
    "advantage_mean": _BY_DEFAULT,
    "advantage_std": _BY_DEFAULT,
    "advantage_min": _BY_DEFAULT,
    "advantage_max": _BY_DEFAULT,
    "length_mean": _BY_DEFAULT,
    "length_min": _BY_DEFAULT,
    "length_max": _BY_DEFAULT,
    "truncated_frac": _BY_DEFAULT,
    "stop_frac/*": _BY_DEFAULT,
    "turns_mean": _BY_DEFAULT,
    "entropy": _BY_DEFAULT,
    "policy_loss": _VERL_ONLY,
    "grad_norm": _VERL_ONLY,
    "learning_rate": _BY_DEFAULT,
    "clip_frac": _VERL_ONLY,
    "kl_ref": "actor_rollout_ref.actor.use_kl_loss=True  # " + _VERL_ONLY,
    "kl_sampler_trainer": "tinker backend: train/kl_sample_train_v2, logged by default",
    "logprob_gap_mean": "tinker backend: train/kl_sample_train_v1, logged by default",
    "version_lag_mean": _ASYNC,
    "version_lag_max": _ASYNC,
    "step_time_s": _ASYNC,
    "evals": "rllm.trainer.test_freq=10 rllm.trainer.val_before_train=True",
    "rollouts": _EPISODES,
    "config": "Hydra keeps it in outputs/<date>/<time>/.hydra",
    "checkpoints": "rllm.trainer.save_freq=50",
}

INFO = TrainerInfo(
    name="rLLM",
    knobs=_KNOBS,
    how_to_log=_HOW_TO_LOG,
    step_base=1,
    defaults={
        "group_size": "8 (rLLM, August 2026)",
        "prompts_per_step": "64 (rLLM, August 2026)",
        "clip_low": "0.2 (rLLM, August 2026)",
        "kl_coef": "0 (rLLM, August 2026)",
        "temperature": "1.0 (rLLM, August 2026)",
        "advantage_scaling": "by the group's std (rLLM, August 2026)",
        "learning_rate": "2e-5 with tinker, LoRA of rank 32 (rLLM, August 2026)",
        "eval_every": "5 (rLLM, August 2026)",
    },
)
