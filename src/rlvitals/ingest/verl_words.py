"""verl in its own words: setting names, lines that make it log a metric, defaults."""

from __future__ import annotations

from rlvitals.schema import TrainerInfo

_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_BY_DEFAULT = 'trainer.logger=\'["console","file"]\'  # logged by default'
_VALIDATE = "trainer.test_freq=10 trainer.val_before_train=True  # and data.val_files"
_SAMPLER_LOGPROBS = f"{_ROLLOUT}.calculate_log_probs=True"
_CORRECTION = "algorithm.rollout_correction.rollout_is=token algorithm.rollout_correction.rollout_is_threshold=2.0"
_DUMP = "trainer.rollout_data_dir=rollouts  # one JSONL file per step; then: rlvitals check rollouts"
_EXTRA = "return the value in the dict of compute_score (custom_reward_function.path); it lands in the rollout dump"

KNOBS: dict[str, str] = {
    "group_size": f"{_ROLLOUT}.n",
    "prompts_per_step": "data.train_batch_size",
    "updates_per_rollout": f"{_ACTOR}.ppo_epochs and {_ACTOR}.ppo_mini_batch_size",
    "clip_low": f"{_ACTOR}.clip_ratio_low",
    "clip_high": f"{_ACTOR}.clip_ratio_high",
    "kl_coef": f"{_ACTOR}.kl_loss_coef (with {_ACTOR}.use_kl_loss=True)",
    "kl_estimator": f"{_ACTOR}.kl_loss_type",
    "kl_in_reward": "algorithm.use_kl_in_reward",
    "entropy_coef": f"{_ACTOR}.entropy_coeff",
    "temperature": f"{_ROLLOUT}.temperature",
    "top_p": f"{_ROLLOUT}.top_p",
    "top_k": f"{_ROLLOUT}.top_k",
    "token_budget": "data.max_response_length",
    "loss_type": f"{_ACTOR}.policy_loss.loss_mode",
    "loss_aggregation": f"{_ACTOR}.loss_agg_mode",
    "importance_level": f"{_ACTOR}.policy_loss.loss_mode=gspo",
    "advantage_estimator": "algorithm.adv_estimator",
    "advantage_scaling": "algorithm.norm_adv_by_std_in_grpo",
    "drops_zero_variance": "algorithm.filter_groups.enable",
    "learning_rate": f"{_ACTOR}.optim.lr",
    "lr_schedule": f"{_ACTOR}.optim.lr_scheduler_type",
    "warmup_steps": f"{_ACTOR}.optim.lr_warmup_steps",
    "planned_steps": "trainer.total_training_steps",
    "max_grad_norm": f"{_ACTOR}.grad_clip",
    "max_version_lag": "async_training.staleness_threshold",
    "context_length": f"{_ROLLOUT}.max_model_len",
    "sync": "trainer.use_v1 and async_training.trigger_parameter_sync_step",
    "verifier": "custom_reward_function.path",
    "parser": "custom_reward_function.path",
    "model": "actor_rollout_ref.model.path",
    "curriculum": "data.sampler.class_path (a curriculum sampler) or data.train_files",
    "mixture": "data.train_files",
    "reward_function": "custom_reward_function.path",
    "sampler_correction": "algorithm.rollout_correction.rollout_is",
    "eval_every": "trainer.test_freq",
    "checkpoint_every": "trainer.save_freq",
    "resume_from": "trainer.resume_mode=resume_path trainer.resume_from_path",
}

_STOP = (
    "not possible without code: verl keeps no finish reason; in Tracking.log (verl/utils/tracking.py), "
    "`data['stop_frac/eos'] = 1 - data['response_length/clip_ratio']`"
)

HOW_TO_LOG: dict[str, str] = {
    "reward_mean": _BY_DEFAULT,
    "reward_min": _BY_DEFAULT,
    "reward_max": _BY_DEFAULT,
    "reward_std": _DUMP,
    "reward_part/*": _EXTRA,
    "reward_family/*": _EXTRA,
    "success_frac": _EXTRA,
    "success_tier/*": _EXTRA,
    "parse_failure_frac": _EXTRA,
    "verifier_error_frac": _EXTRA,
    "zero_variance_frac": _DUMP,
    "all_wrong_frac": _DUMP,
    "all_right_frac": _DUMP,
    "advantage_mean": _BY_DEFAULT,
    "advantage_min": _BY_DEFAULT,
    "advantage_max": _BY_DEFAULT,
    "length_mean": _BY_DEFAULT,
    "length_min": _BY_DEFAULT,
    "length_max": _BY_DEFAULT,
    "length_right_mean": _DUMP,
    "length_wrong_mean": _DUMP,
    "prompt_length_mean": _BY_DEFAULT,
    "truncated_frac": _BY_DEFAULT,
    "turns_mean": _BY_DEFAULT,
    "repetition_frac": _DUMP,
    "unique_frac": _DUMP,
    "entropy": "algorithm.rollout_correction.bypass_mode=False  # logged by default then",
    "policy_loss": _BY_DEFAULT,
    "grad_norm": _BY_DEFAULT,
    "learning_rate": _BY_DEFAULT,
    "clip_frac": _BY_DEFAULT,
    "kl_ref": f"{_ACTOR}.use_kl_loss=True {_ACTOR}.kl_loss_coef=0.001 {_ACTOR}.kl_loss_type=low_var_kl",
    "kl_coef": f"{_ACTOR}.use_kl_loss=True",
    "kl_old_new": _BY_DEFAULT,
    "kl_sampler_trainer": f"{_SAMPLER_LOGPROBS} {_CORRECTION}",
    "prob_gap_mean": _SAMPLER_LOGPROBS,
    "prob_gap_max": _SAMPLER_LOGPROBS,
    "sampler_corr": _SAMPLER_LOGPROBS,
    "sampler_ratio_mean": f"{_SAMPLER_LOGPROBS} {_CORRECTION}",
    "sampler_ratio_min": f"{_SAMPLER_LOGPROBS} {_CORRECTION}",
    "sampler_ratio_max": f"{_SAMPLER_LOGPROBS} {_CORRECTION}",
    "effective_sample_frac": f"{_SAMPLER_LOGPROBS} {_CORRECTION}",
    "version_lag_mean": "trainer.use_v1=True  # verl 0.9 or later",
    "version_lag_max": "trainer.use_v1=True  # verl 0.9 or later",
    "step_time_s": _BY_DEFAULT,
    "tokens_per_second": _BY_DEFAULT,
    "tokens_total": _BY_DEFAULT,
    "epoch": _BY_DEFAULT,
    "evals": _VALIDATE,
    "stop_frac/*": _STOP,
    "rollouts": _DUMP,
    "config": "python -m verl.trainer.main_ppo ... --cfg job > config.yaml  # beside the log",
    "checkpoints": "trainer.save_freq=50",
}

INFO = TrainerInfo(
    name="verl",
    update_means=("grad_norm",),
    knobs=KNOBS,
    how_to_log=HOW_TO_LOG,
    step_base=1,
    defaults={
        "group_size": "1 (verl 0.9): a GRPO run must raise it",
        "kl_coef": "off: use_kl_loss and use_kl_in_reward are False (verl 0.9)",
        "kl_estimator": "low_var_kl, k3 (verl 0.9)",
        "clip_low": "0.2 (verl 0.9)",
        "clip_high": "0.2 (verl 0.9)",
        "entropy_coef": "0 (verl 0.9)",
        "temperature": "1.0 (verl 0.9)",
        "token_budget": "512 (verl 0.9)",
        "loss_aggregation": "token-mean (verl 0.9)",
        "learning_rate": "1e-6 (verl 0.9)",
        "eval_every": "off: test_freq -1 (verl 0.9)",
    },
)
