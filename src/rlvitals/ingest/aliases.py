"""ALIASES: the names in common use for each canonical metric; the table behind the generic adapter."""

from __future__ import annotations

# Canonical metric -> names in use, normalised (lower case, "_" between words, leading train_/policy_/... stripped).
# A name stands once only; of several names that a log carries, the first in the row wins.
# fmt: off
ALIASES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("reward_mean", (
        "reward", "reward_mean", "mean_reward", "avg_reward", "reward_avg", "average_reward", "rewards_mean",
        "mean_rewards", "total_reward", "reward_total", "raw_reward", "episode_reward", "episode_reward_mean",
        "avg_rewards", "reward_total_mean", "mean_total_reward", "score_mean", "mean_score",
        "avg_score", "score", "scores_mean", "episodic_return", "mean_return", "ep_rew_mean", "return_mean", "rewards"
    )),
    ("reward_std", (
        "reward_std", "std_reward", "rewards_std", "reward_stddev", "group_reward_std", "reward_std_mean"
    )),
    ("reward_min", ("reward_min", "min_reward", "rewards_min")),
    ("reward_max", ("reward_max", "max_reward", "rewards_max")),
    ("success_frac", (
        "success_rate", "success_frac", "success", "solve_rate", "pass_rate", "win_rate", "accuracy", "acc",
        "mean_accuracy", "correct_rate", "accuracy_mean", "frac_correct", "correct_frac", "pass_at_1",
        "solved_rate", "solved_frac", "percent_correct", "em", "exact_match"
    )),
    ("parse_failure_frac", (
        "parse_failure_rate", "parse_fail_rate", "parse_failure_frac", "parse_failure", "parse_fail",
        "parse_error_rate", "invalid_rate", "unparseable_rate", "format_error_rate", "invalid_frac"
    )),
    ("verifier_error_frac", (
        "verifier_error_rate", "verifier_error_frac", "reward_error_rate", "judge_error_rate",
        "verifier_timeout_rate", "grader_error_rate"
    )),
    ("zero_variance_frac", (
        "frac_reward_zero_std", "zero_variance_frac", "zero_variance_fraction", "zero_adv_fraction",
        "zero_advantage_fraction", "zero_adv_frac", "frac_zero_std", "zero_std_frac", "zero_std_fraction",
        "frac_zero_variance", "zero_variance_ratio", "degenerate_group_frac", "frac_zero_adv",
        "zero_variance_rate", "zero_var_frac", "dead_group_frac", "frac_zero_var"
    )),
    ("all_wrong_frac", (
        "all_wrong_frac", "all_wrong", "solve_none", "frac_all_bad", "all_fail_frac", "frac_all_wrong"
    )),
    ("all_right_frac", (
        "all_right_frac", "all_correct", "solve_all", "frac_all_good", "frac_all_correct", "all_correct_frac",
        "frac_all_right"
    )),
    ("advantage_mean", (
        "advantage_mean", "adv_mean", "mean_advantage", "advantages_mean", "adv_avg", "mean_adv", "avg_advantage"
    )),
    ("advantage_std", ("advantage_std", "adv_std", "std_advantage", "advantages_std")),
    ("advantage_min", ("advantage_min", "adv_min", "advantages_min")),
    ("advantage_max", ("advantage_max", "adv_max", "advantages_max")),
    ("length_mean", (
        "completion_length", "mean_completion_length", "completion_length_mean", "completions_mean_length",
        "response_length", "response_length_mean", "mean_response_length", "avg_response_len", "completion_len",
        "response_len", "mean_completion_len", "avg_completion_length", "avg_completion_len", "avg_gen_tokens",
        "mean_gen_tokens", "gen_length", "mean_length", "avg_length", "length_mean", "mean_response_len",
        "avg_response_length", "response_tokens", "output_tokens", "num_output_tokens", "avg_num_tokens",
        "completion_tokens", "mean_completion_tokens", "avg_tokens", "mean_tokens", "response_len_mean",
        "completion_len_mean", "avg_output_tokens", "gen_len", "mean_gen_len", "tokens_per_completion"
    )),
    ("length_min", (
        "min_completion_length", "completions_min_length", "response_length_min", "min_response_length",
        "min_gen_tokens", "length_min", "completion_length_min", "min_length"
    )),
    ("length_max", (
        "max_completion_length", "completions_max_length", "response_length_max", "max_response_length",
        "max_gen_tokens", "length_max", "completion_length_max", "max_length"
    )),
    ("length_std", ("length_std", "completion_length_std", "response_length_std", "std_completion_length")),
    ("prompt_length_mean", (
        "prompt_length", "prompt_length_mean", "mean_prompt_length", "avg_prompt_len", "prompt_len"
    )),
    ("truncated_frac", (
        "truncated_rate", "truncation_rate", "truncated_frac", "truncated_fraction", "frac_truncated",
        "truncated_ratio", "completions_clipped_ratio", "response_length_clip_ratio", "clipped_ratio",
        "is_truncated", "hit_max_tokens_ratio", "truncation_frac", "truncated", "pct_truncated",
        "max_len_hit_rate", "overlong_rate", "overlong_frac"
    )),
    ("turns_mean", (
        "num_turns", "num_turns_mean", "turns_mean", "mean_turns", "avg_turns", "turns_per_episode", "avg_steps",
        "mean_steps", "steps_per_episode"
    )),
    ("tool_failure_frac", (
        "tool_failure_rate", "tool_error_rate", "tools_failure_frequency", "tool_failure_frac"
    )),
    ("repetition_frac", ("repetition_rate", "repetition_frac", "repeat_rate", "degenerate_rate")),
    ("unique_frac", ("unique_frac", "unique_rate", "unique_fraction", "distinct_frac")),
    ("entropy", (
        "entropy", "mean_entropy", "entropy_mean", "avg_entropy", "entropy_avg", "policy_entropy",
        "token_entropy", "entropy_loss"
    )),
    ("loss", ("loss", "loss_mean", "mean_loss", "avg_loss", "total_loss", "loss_total", "training_loss")),
    ("policy_loss", ("policy_loss", "pg_loss", "policy_gradient_loss", "actor_loss", "surrogate_loss")),
    ("grad_norm", (
        "grad_norm", "gradient_norm", "gradnorm", "grad_norm_mean", "total_grad_norm", "global_grad_norm"
    )),
    ("learning_rate", ("learning_rate", "lr", "current_lr")),
    ("clip_frac", (
        "clip_frac", "clip_fraction", "clipfrac", "clip_ratio", "pg_clipfrac", "clip_ratio_region_mean",
        "clip_ratio_mean", "clipped_frac", "clip_rate", "frac_clipped"
    )),
    ("clip_low_frac", ("clip_low_frac", "clip_ratio_low", "clip_ratio_low_mean", "clip_frac_low")),
    ("clip_high_frac", ("clip_high_frac", "clip_ratio_high", "clip_ratio_high_mean", "clip_frac_high")),
    ("ratio_mean", ("ratio", "ratio_mean", "policy_ratio", "mean_ratio", "importance_ratio", "avg_ratio")),
    ("ratio_max", ("ratio_max", "max_ratio")),
    ("ratio_min", ("ratio_min", "min_ratio")),
    ("kl_ref", (
        "kl", "kl_ref", "ref_kl", "kl_div", "kl_divergence", "mean_kl", "kl_mean", "avg_kl", "kl_to_ref",
        "kl_avg", "kl_to_reference", "reference_kl", "policy_kl", "kl_penalty", "kl_div_mean"
    )),
    ("kl_loss", ("kl_loss",)),
    ("kl_coef", ("kl_coef", "kl_coeff", "kl_beta", "beta", "kl_coefficient")),
    ("kl_old_new", ("approx_kl", "approxkl", "ppo_kl", "old_new_kl", "kl_old_new", "kl_old")),
    ("kl_sampler_trainer", ("mismatch_kl", "vllm_kl", "rollout_kl", "gen_kl_error", "kl_sampler_trainer")),
    ("logprob_gap_mean", (
        "logprob_gap_mean", "logprob_diff_mean", "logp_diff_mean", "rollout_train_logprobs_abs_diff_mean",
        "sampling_logp_difference_mean", "train_rollout_logprob_abs_diff"
    )),
    ("logprob_gap_max", ("logprob_gap_max", "logprob_diff_max", "logp_diff_max", "sampling_logp_difference_max")),
    ("sampler_ratio_mean", (
        "importance_sampling_ratio_mean", "sampling_importance_sampling_ratio_mean", "is_ratio_mean"
    )),
    ("effective_sample_frac", ("effective_sample_frac", "ess_frac", "ess_ratio", "ess")),
    ("version_lag_mean", (
        "staleness_mean", "version_lag_mean", "policy_lag", "off_policy_mean", "mean_staleness", "staleness"
    )),
    ("version_lag_max", ("staleness_max", "version_lag_max", "off_policy_max", "max_staleness")),
    ("step_time_s", (
        "step_time", "time_per_step", "step_time_s", "iter_time_s", "seconds_per_step", "step_time_sec"
    )),
    ("tokens_per_second", ("tokens_per_sec", "tokens_per_second", "throughput", "tps")),
    ("tokens_total", ("num_tokens", "total_tokens", "tokens_total", "num_input_tokens_seen", "tokens_seen")),
    ("epoch", ("epoch", "epochs")),
)
# fmt: on
