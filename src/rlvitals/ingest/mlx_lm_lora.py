"""mlx-lm-lora's GRPO trainer: console blocks, and the `train_...` rows of its callback (W&B).

Its clip fractions are those of the ratio to the reference, with a range of 1e-4 by default: near 1 is usual there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rlvitals.ingest.adapter import Adapter, Key
from rlvitals.schema import Direction, RunConfig, TrainerInfo

_REF = Direction.TO_REFERENCE
_TO_REFERENCE = "of the ratio to the reference, not to the old policy"
_NO_ESTIMATOR = "with beta above 0 it is exp(2x) - x - 1, x = log(policy/reference): no KL estimator, can be negative"

_KEYS: dict[str, Key] = {
    "total_rewards_mean": Key("reward_mean"),
    "grouped_rewards_mean": Key("reward_mean", note="mean of the groups' means"),
    "grouped_rewards_std": Key("reward_std", estimator="group", note="mean of the groups' population std"),
    "total_rewards_std": Key("reward_std", estimator="batch", note="population std"),
    "kl": Key("kl_ref", estimator="other", direction=_REF, note=_NO_ESTIMATOR),
    "average_generated_tokens": Key("length_mean"),
    "min_generated_tokens": Key("length_min"),
    "max_generated_tokens": Key("length_max"),
    "hit_max_tokens_ratio": Key("truncated_frac", estimator="at budget"),
    "clip_ratio_low": Key("clip_low_frac", estimator="token", note=_TO_REFERENCE),
    "clip_ratio_high": Key("clip_high_frac", estimator="token", note=_TO_REFERENCE),
    "loss": Key("loss"),
    "learning_rate": Key("learning_rate"),
    "tokens_per_second": Key("tokens_per_second"),
    "trained_tokens": Key("tokens_total"),
}

_PATTERNS: tuple[tuple[str, Key], ...] = (
    ("{}_mean", Key("reward_part/{}")),
    ("{}_std", Key("reward_part_std/{}")),
)

_IGNORED: tuple[str, ...] = (
    "{}_coverage",
    "clip_ratio_total",  # never the share that an update clipped: it must not be judged as such
    "iterations_per_second",
    "peak_memory",
    "max_completion_length",
    "val_loss",
    "val_time",
    "iteration",
)


def _with_prefix(keys: Mapping[str, Key]) -> dict[str, Key]:
    return {**keys, **{f"train_{name}": key for name, key in keys.items()}}


def _matches(keys: frozenset[str]) -> int:
    bare = {key.removeprefix("train_") for key in keys}
    if {"total_rewards_mean", "grouped_rewards_std"} <= bare:
        return 97
    return 80 if {"hit_max_tokens_ratio", "average_generated_tokens"} <= bare else 0


def _refine(keys: frozenset[str], config: RunConfig) -> dict[str, Key]:
    """Without a KL term the logged KL is k3; with one it is no estimator."""
    if config.kl_coef != 0:
        return {}
    key = replace(_KEYS["kl"], estimator="k3", note="mean of the means per sequence")
    return _with_prefix({"kl": key})


_CONFIG: dict[str, tuple[str, ...]] = {
    "group_size": ("group_size",),
    "prompts_per_step": ("batch_size",),
    "clip_low": ("epsilon",),
    "clip_high": ("epsilon_high", "epsilon"),
    "kl_coef": ("beta",),
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "top_k": ("top_k",),
    "min_p": ("min_p",),
    "token_budget": ("max_completion_length",),
    "context_length": ("max_seq_length",),
    "loss_type": ("grpo_loss_type",),
    "importance_level": ("importance_sampling_level",),
    "learning_rate": ("learning_rate",),
    "planned_steps": ("iters",),
    "logging_steps": ("steps_per_report",),
    "model": ("model",),
}


def _config_rules(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    """Return the aggregation of the loss (its `grpo` is a token mean) and whether LoRA is trained."""
    out: dict[str, tuple[object, str]] = {}
    loss, kind, beta = flat.get("grpo_loss_type"), flat.get("train_type"), flat.get("beta")
    if isinstance(loss, str):
        out["loss_aggregation"] = ("constant length" if loss == "dr_grpo" else "token mean", "grpo_loss_type")
    if isinstance(kind, str):
        out["uses_lora"] = (kind != "full", "train_type")
    if isinstance(beta, (int, float)) and not isinstance(beta, bool):
        out["kl_estimator"] = ("k3" if beta == 0 else "squared ratio", "beta")
    return out


_BY_DEFAULT = "printed every --steps-per-report steps; --wandb PROJECT logs it as train_<name>"
_FUNCTION = "pass each component as its own function in --reward-functions: logged as <name>_mean"
_FLAG = "add a reward function with weight 0 (--reward-weights) that returns it: logged as <name>_mean"
_NONE = "not possible without code: add it to the metrics of grpo_loss"

INFO = TrainerInfo(
    name="mlx-lm-lora",
    knobs={
        "group_size": "--group-size",
        "prompts_per_step": "--batch-size",
        "clip_low": "--epsilon",
        "clip_high": "--epsilon-high",
        "kl_coef": "--beta",
        "temperature": "--temperature",
        "top_p": "--top-p",
        "top_k": "--top-k",
        "token_budget": "--max-completion-length",
        "loss_type": "--grpo-loss-type",
        "importance_level": "--importance-sampling-level",
        "learning_rate": "--learning-rate",
        "lr_schedule": "lr_schedule in the config file (-c)",
        "planned_steps": "--iters",
        "logging_steps": "--steps-per-report",
        "reward_weights": "--reward-weights",
        "verifier": "--reward-functions",
        "parser": "--reward-functions",
        "reward_function": "--reward-functions",
        "curriculum": "the order of the data set",
        "mixture": "the data set",
        "model": "--model",
        "eval_every": "--steps-per-eval",
        "checkpoint_every": "--save-every",
        "resume_from": "--resume-adapter-file",
    },
    how_to_log={
        "reward_mean": _BY_DEFAULT,
        "reward_std": _BY_DEFAULT,
        "reward_part/*": _FUNCTION,
        "reward_family/*": _FLAG,
        "success_frac": _FLAG,
        "success_tier/*": _FLAG,
        "parse_failure_frac": _FLAG,
        "verifier_error_frac": "a function that returns None for a failed check lowers <name>_coverage",
        "zero_variance_frac": "not possible without code: in grpo_loss, "
        "`reward_specific_metrics['zero_variance_frac'] = mean(std == 0 for each group)`",
        "length_mean": _BY_DEFAULT,
        "length_min": _BY_DEFAULT,
        "length_max": _BY_DEFAULT,
        "truncated_frac": _BY_DEFAULT,
        "entropy": _NONE,
        "kl_ref": "--beta 0 --reference-model-path PATH  # k3; without a reference model it is 0",
        "grad_norm": _NONE,
        "loss": _BY_DEFAULT,
        "learning_rate": _BY_DEFAULT,
        "tokens_per_second": _BY_DEFAULT,
        "tokens_total": _BY_DEFAULT,
        "evals": "not possible without code: --steps-per-eval logs a loss alone; score checkpoints elsewhere and pass "
        "`--evals NAME=FILE`",
        "stop_frac/*": _FLAG + ": the share that ended by itself, in a function named `stop_frac_eos`",
        "length_right_mean": "not possible without code: in a reward function of weight 0 named `length_right_mean`, "
        "return the length where the answer is right, else None",
        "version_lag_mean": "no lag to log: it samples with the weights that it trains",
        "rollouts": "not possible without code: in a reward function, "
        "`open('rollouts.jsonl', 'a').write(json.dumps(row) + '\\n')`",
        "config": "adapters/adapter_config.json is written by default",
        "checkpoints": "--save-every 50",
    },
    step_base=1,
    defaults={
        "group_size": "4 (mlx-lm-lora, August 2026)",
        "kl_coef": "0.1 (mlx-lm-lora, August 2026)",
        "clip_low": "1e-4, around a ratio to the reference (mlx-lm-lora, August 2026)",
        "temperature": "0.8 (mlx-lm-lora, August 2026)",
        "top_p": "0.95 (mlx-lm-lora, August 2026)",
        "top_k": "20 (mlx-lm-lora, August 2026)",
        "token_budget": "512 (mlx-lm-lora, August 2026)",
    },
)

_FIXED = ("updates_per_rollout", "trainer_temperature", "kl_in_reward")

ADAPTER = Adapter(
    info=INFO,
    matches=_matches,
    step_keys=("iteration", "step", "_step"),
    keys=_with_prefix(_KEYS),
    patterns=tuple((prefix + text, key) for text, key in _PATTERNS for prefix in ("train_", "")),
    ignore=(*_IGNORED, *(f"train_{text}" for text in _IGNORED)),
    config=_CONFIG,
    refine=_refine,
    config_rules=_config_rules,
    fixed=RunConfig(
        updates_per_rollout=1.0, trainer_temperature=1.0, kl_in_reward=False,
        sources=dict.fromkeys(_FIXED, "mlx-lm-lora's GRPO loss"),
    ),
)  # fmt: skip
