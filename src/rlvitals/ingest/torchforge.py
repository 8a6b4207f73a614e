"""torchforge: console blocks and W&B of its GRPO app. It logs neither KL nor entropy, and evaluates nothing."""

from __future__ import annotations

from collections.abc import Mapping

from rlvitals.ingest.adapter import Adapter, Key
from rlvitals.schema import TrainerInfo

_REWARD = "reward/evaluate_response"
_MEAN_OF_FUNCTIONS = "mean over the reward functions, not their sum"

_KEYS: dict[str, Key] = {
    f"{_REWARD}/avg_total_reward": Key("reward_mean", note=_MEAN_OF_FUNCTIONS),
    "generator/generate/avg_tokens_generated": Key("length_mean"),
    "rl_trainer/avg_loss": Key("loss"),
    "rl_trainer/learning_rate": Key("learning_rate"),
    "buffer/sample/avg_sampled_policy_age": Key("version_lag_mean"),
    "buffer/sample/max_sampled_policy_age": Key("version_lag_max"),
    "rl_trainer_perf/step/total_duration_avg_s": Key("step_time_s", note="optimizer step alone"),
    "dataset/sample/current_epoch": Key("epoch"),
}

_PATTERNS: tuple[tuple[str, Key], ...] = (
    (f"{_REWARD}/avg_{{}}_reward", Key("reward_part/{}")),
    (f"{_REWARD}/std_{{}}_reward", Key("reward_part_std/{}")),
)

_IGNORED: tuple[str, ...] = (
    f"{_REWARD}/{{}}",
    "generator/{}",
    "generator_perf/{}",
    "buffer/{}",
    "dataset/{}",
    "main/{}",
    "main_perf/{}",
    "reference_perf/{}",
    "rl_trainer/{}",
    "rl_trainer_perf/{}",
    "replay_buffer/{}",
    "_runtime",
    "_timestamp",
)


def _matches(keys: frozenset[str]) -> int:
    if f"{_REWARD}/avg_total_reward" in keys:
        return 97
    return 80 if {"generator/generate/avg_tokens_generated", "rl_trainer/avg_loss"} <= keys else 0


_CONFIG: dict[str, tuple[str, ...]] = {
    "group_size": ("group_size", "policy.sampling_params.n"),
    "temperature": ("policy.sampling_params.temperature",),
    "top_p": ("policy.sampling_params.top_p",),
    "top_k": ("policy.sampling_params.top_k",),
    "token_budget": ("max_res_tokens",),
    "prompt_budget": ("max_req_tokens",),
    "context_length": ("trainer.training.seq_len",),
    "learning_rate": ("trainer.optimizer.lr",),
    "warmup_steps": ("trainer.lr_scheduler.warmup_steps",),
    "planned_steps": ("trainer.training.steps",),
    "max_grad_norm": ("trainer.training.max_norm",),
    "max_version_lag": ("off_by_n", "replay_buffer.max_policy_age"),
    "model": ("model", "policy.engine_args.model"),
}


def _config_rules(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    lag = flat.get("off_by_n")
    if isinstance(lag, int) and not isinstance(lag, bool):
        return {"asynchronous": (lag > 0, "off_by_n")}
    return {}


_BY_DEFAULT = "logged by default to the console; `metric_logging.wandb` in the YAML adds W&B"
_RECORD = 'record_metric("<name>", value, Reduce.MEAN) in apps/grpo/main.py'
_CODE = "not possible without code: `{}` in {}"

INFO = TrainerInfo(
    name="torchforge",
    knobs={
        "group_size": "group_size",
        "prompts_per_step": "local_batch_size / group_size",
        "temperature": "policy.sampling_params.temperature",
        "top_p": "policy.sampling_params.top_p",
        "top_k": "policy.sampling_params.top_k",
        "token_budget": "max_res_tokens",
        "kl_coef": "beta of simple_grpo_loss in apps/grpo/main.py",
        "learning_rate": "trainer.optimizer.lr",
        "warmup_steps": "trainer.lr_scheduler.warmup_steps",
        "planned_steps": "trainer.training.steps",
        "max_grad_norm": "trainer.training.max_norm",
        "max_version_lag": "off_by_n",
        "sync": "off_by_n and the weight update of the policy service",
        "loss_type": "the loss function in apps/grpo/main.py",
        "model": "model",
        "curriculum": "the dataset actor in apps/grpo/main.py",
        "mixture": "dataset.path",
        "verifier": "reward_functions of RewardActor in apps/grpo/main.py",
        "parser": "reward_functions of RewardActor in apps/grpo/main.py",
        "reward_function": "reward_functions of RewardActor in apps/grpo/main.py",
        "checkpoint_every": "trainer.checkpoint.interval",
        "resume_from": "trainer.checkpoint.folder",
    },
    how_to_log={
        "reward_mean": _BY_DEFAULT,
        "reward_part/*": "each function in reward_functions of RewardActor is logged by its name",
        "reward_family/*": 'record_metric(f"reward_family/{family}", reward, Reduce.MEAN) in RewardActor',
        "success_frac": 'record_metric("success_frac", float(is_right), Reduce.MEAN) in RewardActor',
        "success_tier/*": 'record_metric(f"success_tier/{tier}", float(is_right), Reduce.MEAN) in RewardActor',
        "parse_failure_frac": 'record_metric("parse_failure_frac", float(answer is None), Reduce.MEAN) in RewardActor',
        "verifier_error_frac": 'record_metric("verifier_error_frac", float(failed), Reduce.MEAN) in RewardActor',
        "reward_std": 'record_metric("reward_std", rewards.std(), Reduce.MEAN) in ComputeAdvantages',
        "zero_variance_frac": 'record_metric("zero_variance_frac", float(rewards.std() == 0), Reduce.MEAN) '
        "in ComputeAdvantages",
        "length_max": 'record_metric("length_max", float(len(completion.token_ids)), Reduce.MAX) '
        "where episodes are made",
        "length_right_mean": 'record_metric("length_right_mean", float(len(completion.token_ids)), Reduce.MEAN) '
        "where the reward is 1",
        "advantage_mean": _RECORD,
        "length_mean": _BY_DEFAULT,
        "truncated_frac": 'record_metric("truncated_frac", float(completion.stop_reason == "length"), Reduce.MEAN) '
        "where episodes are made in apps/grpo/main.py",
        "stop_frac/*": 'record_metric(f"stop_frac/{r}", float(completion.stop_reason == r), Reduce.MEAN) '
        "for each reason, where episodes are made",
        "entropy": _CODE.format('record_metric("entropy", entropy.mean().item(), Reduce.MEAN)', "the loss function"),
        "kl_ref": _CODE.format('record_metric("kl_ref", kl.mean().item(), Reduce.MEAN)', "simple_grpo_loss"),
        "loss": _BY_DEFAULT,
        "grad_norm": 'record_metric("grad_norm", grad_norm, Reduce.MEAN) in the trainer: torchforge logs none',
        "learning_rate": _BY_DEFAULT,
        "version_lag_mean": _BY_DEFAULT,
        "version_lag_max": _BY_DEFAULT,
        "step_time_s": _BY_DEFAULT,
        "evals": "not possible without code: there is no evaluation loop; score checkpoints elsewhere and pass "
        "`--evals NAME=FILE`",
        "rollouts": "not possible without code: `log.write(json.dumps(episode_fields) + '\\n')` where episodes are "
        "made in apps/grpo/main.py",
        "config": "keep the YAML file beside the log",
        "checkpoints": "trainer.checkpoint.interval: 50",
    },
    step_base=1,
    defaults={
        "group_size": "8 (torchforge, November 2025)",
        "temperature": "1.0 (torchforge, November 2025)",
        "token_budget": "1024 (torchforge, November 2025)",
        "kl_coef": "0.1, beta of simple_grpo_loss (torchforge, November 2025)",
        "learning_rate": "1e-5 (torchforge, November 2025)",
        "max_version_lag": "1, off_by_n (torchforge, November 2025)",
    },
)

ADAPTER = Adapter(
    info=INFO,
    matches=_matches,
    step_keys=("step", "global_step", "_step"),
    keys=_KEYS,
    patterns=_PATTERNS,
    ignore=_IGNORED,
    config=_CONFIG,
    config_rules=_config_rules,
)
