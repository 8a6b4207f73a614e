"""Atropos: what its environments and its example trainer log to W&B, and its dumps of scored groups.

An environment counts its own W&B steps, one per batch that it sent; a dump has no step at all, its groups are numbered.
"""

from __future__ import annotations

from rlvitals.ingest.adapter import Adapter, EvalKey, Key
from rlvitals.schema import Scope, TrainerInfo

_ENV = "counted by the environment, over what it sent since its last log"

_KEYS: dict[str, Key] = {
    "train/percent_correct": Key("success_frac", note="a share, despite its name; " + _ENV),
    "train/avg_score": Key("reward_mean", note=_ENV),
    "train/avg_reward": Key("reward_mean", note=_ENV),
    "train/completion_lengths": Key("length_mean", note=_ENV),
    "train/completion_lengths_std": Key("length_std"),
    "train/completion_lengths_max": Key("length_max"),
    "train/completion_lengths_min": Key("length_min"),
    "train/completion_lengths_p95": Key(
        "truncated_frac", estimator="at budget", note="longer than 95% of the token budget"
    ),
    "train/avg_correct_answer_len": Key("length_right_mean"),
    "train/avg_incorrect_answer_len": Key("length_wrong_mean"),
    "train/loss": Key("loss", note="the example trainer"),
    "train/grad_norm": Key("grad_norm", note="the example trainer"),
    "train/lr": Key("learning_rate", note="the example trainer"),
    "train/step_time": Key("step_time_s", note="the example trainer"),
    "grpo/mean_ratio": Key("ratio_mean", note="the example trainer"),
    "grpo/clipped_fraction": Key("clip_frac", estimator="token", note="the example trainer"),
    # a dump of scored groups, one row per group
    "group/score_mean": Key("reward_mean", scope=Scope.UNKNOWN),
    "group/score_std": Key("reward_std", estimator="group", scope=Scope.UNKNOWN),
    "group/score_min": Key("reward_min", scope=Scope.UNKNOWN),
    "group/score_max": Key("reward_max", scope=Scope.UNKNOWN),
    "group/tied": Key("zero_variance_frac", scope=Scope.UNKNOWN, note="0 or 1: one group per row"),
    "group/advantage_mean": Key("advantage_mean", scope=Scope.UNKNOWN),
    "group/length_mean": Key("length_mean", scope=Scope.UNKNOWN),
    "group/length_min": Key("length_min", scope=Scope.UNKNOWN),
    "group/length_max": Key("length_max", scope=Scope.UNKNOWN),
    "group/surprisal": Key("surprisal_mean", scope=Scope.UNKNOWN, note="under the sampler's own log-probabilities"),
}

_EVALS: tuple[EvalKey, ...] = (
    EvalKey("eval/percent_correct", "eval", percent_or_fraction=True),
    EvalKey("eval/{}_percent_correct", "{}", percent_or_fraction=True),
    EvalKey("eval/accuracy", "eval", percent_or_fraction=True),
    EvalKey("eval/avg_score", "eval score", metric="reward"),
    EvalKey("eval/avg_reward", "eval reward", metric="reward"),
)

_IGNORED: tuple[str, ...] = (
    "train_perf/{}",
    "train/items_sent_to_api",
    "train/items_rejected",
    "train/iter",
    "train/pos_logp",
    "train/neg_logp",
    "judge_train/{}",
    "{}_train_perf/{}",
    "train/{}_time",
    "train/gpu_{}",
    "server_{}",
    "_timestamp",
    "_runtime",
)


_PATTERNS = tuple((f"{{}}_{name}", key) for name, key in _KEYS.items() if name.startswith("train/"))


def _matches(keys: frozenset[str]) -> int:
    """Score the fingerprint; an environment with a name of its own writes it before each key."""
    if any(key.endswith("train/completion_lengths_p95") for key in keys):
        return 96
    if "group/score_mean" in keys and "group/tied" in keys:
        return 96
    if {"train/completion_lengths", "train/items_sent_to_api"} <= keys:
        return 96
    return 75 if {"train/pos_logp", "train/neg_logp"} <= keys else 0


_ENV_LOG = "in wandb_log(self, wandb_metrics) of your BaseEnv: wandb_metrics['train/<name>'] = value, before super()"
_DUMP = "--env.data_path_to_save_groups FILE.jsonl  # one group per line: tokens, masks, scores"
_TRAINER = (
    "not possible without code: Atropos serves environments; in the loop of your trainer, `wandb.log({{'{}': value}})`"
)

INFO = TrainerInfo(
    name="Atropos",
    knobs={
        "group_size": "--env.group_size",
        "prompts_per_step": "--env.batch_size / group_size",
        "token_budget": "--env.max_token_length",
        "temperature": "the temperature of completion() in your environment",
        "planned_steps": "--env.total_steps",
        "drops_zero_variance": "--env.ensure_scores_are_not_same",
        "max_version_lag": "--env.max_batches_offpolicy",
        "sync": "--env.max_batches_offpolicy",
        "learning_rate": "--lr of the trainer",
        "kl_coef": "--kl-coef of the trainer",
        "clip_low": "--clip-eps of the trainer",
        "clip_high": "--clip-eps of the trainer",
        "curriculum": "get_next_item() of your environment",
        "mixture": "--env.inference_weight of each environment",
        "verifier": "score() of your environment",
        "parser": "score() of your environment",
        "reward_function": "score() of your environment",
        "eval_every": "--env.steps_per_eval",
    },
    how_to_log={
        "reward_mean": _ENV_LOG,
        "reward_std": _DUMP,
        "reward_part/*": _ENV_LOG,
        "reward_family/*": _ENV_LOG,
        "success_frac": "set wandb_metrics['train/percent_correct'] in wandb_log of your environment",
        "success_tier/*": _ENV_LOG,
        "parse_failure_frac": _ENV_LOG,
        "verifier_error_frac": _ENV_LOG,
        "zero_variance_frac": _DUMP + "; with --env.ensure_scores_are_not_same false, else tied groups are left out",
        "length_mean": "logged as train/completion_lengths with --env.use_wandb true",
        "length_min": "logged as train/completion_lengths_min with --env.use_wandb true",
        "length_max": "logged as train/completion_lengths_max with --env.use_wandb true",
        "length_std": "logged as train/completion_lengths_std with --env.use_wandb true",
        "truncated_frac": "logged as train/completion_lengths_p95 with --env.use_wandb true",
        "stop_frac/*": _ENV_LOG,
        "entropy": _TRAINER.format("entropy"),
        "kl_ref": _TRAINER.format("kl_ref"),
        "grad_norm": _TRAINER.format("grad_norm"),
        "loss": _TRAINER.format("loss"),
        "version_lag_mean": _TRAINER.format("version_lag_mean"),
        "evals": "--env.steps_per_eval 100, and evaluate() of your environment sets eval/percent_correct",
        "length_right_mean": _DUMP,
        "rollouts": _DUMP,
        "config": "W&B keeps the environment's config",
    },
    step_base=1,
    defaults={"drops_zero_variance": "on: ensure_scores_are_not_same (Atropos, July 2026)"},
)

_CONFIG: dict[str, tuple[str, ...]] = {
    "group_size": ("group_size",),
    "token_budget": ("max_token_length",),
    "planned_steps": ("total_steps",),
    "drops_zero_variance": ("ensure_scores_are_not_same",),
    "max_version_lag": ("max_batches_offpolicy",),
    "model": ("tokenizer_name", "model_name"),
}

ADAPTER = Adapter(
    info=INFO,
    matches=_matches,
    step_keys=("train/step", "group", "_step"),
    keys=_KEYS,
    patterns=_PATTERNS,
    evals=_EVALS,
    ignore=_IGNORED,
    config=_CONFIG,
)
