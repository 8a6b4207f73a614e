"""The RL trainer that verifiers 0.1.8 to 0.1.14 shipped (`vf-rl`, verifiers-rl); its results files are held-out sets.

Its older GRPOTrainer logs TRL's keys and is read as TRL.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlvitals.ingest.adapter import Adapter, EvalKey, Key
from rlvitals.ingest.trl import with_prefix
from rlvitals.schema import Direction, RunConfig, TrainerInfo

_SMP = Direction.SAMPLER_TRAINER

_KEYS: dict[str, Key] = {
    "reward": Key("reward_mean"),
    "reward/std": Key("reward_std", estimator="batch"),
    "tokens/completion": Key("length_mean", note="per model call: a rollout of several turns is longer"),
    "entropy": Key("entropy", estimator="full vocabulary"),
    "mismatch_kl": Key("kl_sampler_trainer", estimator="k3", direction=_SMP),
    "importance_ratio": Key("sampler_ratio_mean", estimator="token", direction=_SMP),
    "loss": Key("loss"),
    "grad_norm": Key("grad_norm"),
    "learning_rate": Key("learning_rate"),
    "epoch": Key("epoch"),
    "wall_clock/generate_s": Key("step_time_s", note="generation alone"),
}

_PATTERNS: tuple[tuple[str, Key], ...] = (
    ("reward/{}", Key("reward_part/{}", note="a reward or metric of the environment, before its weight")),
)  # fmt: skip

_IGNORED: tuple[str, ...] = (
    "advantage/absmean", "tokens/{}", "timing/{}", "wall_clock/{}", "total_flos", "train_loss",
    "num_input_tokens_seen", "eval_{}", "eval/{}",
)  # fmt: skip

_EVALS: tuple[EvalKey, ...] = (
    EvalKey("eval_reward", "reward", metric="reward"),
    EvalKey("eval/reward", "reward", metric="reward"),
)

_OWN = frozenset({"mismatch_kl", "importance_ratio"})


def _matches(keys: frozenset[str]) -> int:
    bare = {key.removeprefix("train/") for key in keys}
    if bare >= _OWN and "reward" in bare:
        return 92
    return 80 if {"tokens/completion", "reward"} <= bare else 0


_CONFIG: dict[str, tuple[str, ...]] = {
    "group_size": ("rollouts_per_example",),
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "top_k": ("top_k",),
    "min_p": ("min_p",),
    "trainer_temperature": ("temperature",),
    "token_budget": ("max_tokens", "max_seq_len"),
    "prompt_budget": ("max_prompt_len",),
    "context_length": ("max_seq_len",),
    "masks_truncated": ("mask_truncated_completions",),
    "learning_rate": ("learning_rate",),
    "lr_schedule": ("lr_scheduler_type",),
    "planned_steps": ("max_steps",),
    "max_grad_norm": ("max_grad_norm",),
    "logging_steps": ("logging_steps",),
    "uses_lora": ("use_lora",),
    "model": ("model",),
}

_FIXED = RunConfig(
    kl_coef=0.0, updates_per_rollout=1.0, advantage_scaling="none", asynchronous=True, importance_level="token",
    loads_reference=False, sampler_correction=True,
    sources=dict.fromkeys(
        ("kl_coef", "updates_per_rollout", "advantage_scaling", "asynchronous", "importance_level", "loads_reference",
         "sampler_correction"),
        "the loop of verifiers' RLTrainer",
    ),
)  # fmt: skip


def _config_rules(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    """Return the bounds of the importance ratio as distances from 1, and prompts per step."""
    out: dict[str, tuple[object, str]] = {}
    for field, name, sign in (("clip_low", "mask_ratio_low", -1.0), ("clip_high", "mask_ratio_high", 1.0)):
        limit = flat.get(name)
        if isinstance(limit, (int, float)) and not isinstance(limit, bool):
            out[field] = (round(sign * (float(limit) - 1.0), 12), name)
    batch, group = flat.get("batch_size"), flat.get("rollouts_per_example")
    if isinstance(batch, int) and isinstance(group, int) and group > 0 and batch % group == 0:
        out["prompts_per_step"] = (batch // group, "batch_size / rollouts_per_example")
    return out


_BY_DEFAULT = "logged by default"
_RUBRIC = "a function of weight 0 in the Rubric of your environment; logged as reward/<name>"
_MOVE = "not possible without code: this trainer ended with verifiers 0.1.14; train with prime-rl, which logs it"

_KNOBS: dict[str, str] = {
    "group_size": "rollouts_per_example",
    "prompts_per_step": "batch_size / rollouts_per_example",
    "clip_low": "mask_ratio_low (1 - clip_low)",
    "clip_high": "mask_ratio_high (1 + clip_high)",
    "kl_coef": "none: this trainer has no reference model; use prime-rl or TRL for one",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "token_budget": "max_tokens and max_seq_len",
    "masks_truncated": "mask_truncated_completions",
    "learning_rate": "learning_rate",
    "lr_schedule": "lr_scheduler_type",
    "planned_steps": "max_steps",
    "max_grad_norm": "max_grad_norm",
    "micro_batch": "micro_batch_size",
    "logging_steps": "logging_steps",
    "sync": "max_concurrent (rollouts run one batch ahead)",
    "sampler_correction": "mask_ratio_low and mask_ratio_high",
    "uses_lora": "use_lora",
    "model": "model",
    "curriculum": "the dataset of your environment",
    "mixture": "EnvGroup",
    "verifier": "the Rubric of your environment",
    "parser": "the Parser of your environment",
    "reward_function": "the Rubric of your environment",
    "eval_every": "eval_steps with eval_strategy",
    "checkpoint_every": "save_steps",
    "resume_from": "resume_from_checkpoint",
}

_HOW_TO_LOG: dict[str, str] = {
    "reward_mean": _BY_DEFAULT,
    "reward_std": _BY_DEFAULT,
    "reward_part/*": "each function of the Rubric is logged as reward/<name>",
    "reward_family/*": "one function of the Rubric per family, which returns the reward for its own tasks",
    "success_frac": _RUBRIC,
    "success_tier/*": _RUBRIC,
    "parse_failure_frac": f"{_RUBRIC}: parser.get_format_reward_func()",
    "verifier_error_frac": _RUBRIC,
    "zero_variance_frac": _MOVE,
    "truncated_frac": f"{_RUBRIC}: return float(state['is_truncated'])",
    "length_max": _MOVE,
    "length_right_mean": f"{_RUBRIC}: the length where the answer is right, else None",
    "stop_frac/*": f"{_RUBRIC}: return float(not state['is_truncated']), as `stop_frac_eos`",
    "version_lag_mean": "no lag to log: at most one batch, max_async_level",
    "config": "keep the TOML file beside the log, or write `[config]` temperature and token_budget into rlvitals.toml",
    "length_mean": _BY_DEFAULT,
    "entropy": _BY_DEFAULT,
    "loss": _BY_DEFAULT,
    "grad_norm": _BY_DEFAULT,
    "learning_rate": _BY_DEFAULT,
    "kl_ref": "not possible without code: there is no reference model; score the same texts under the first and the "
    "current checkpoint, and log the mean of `exp(ref - new) - (ref - new) - 1`",
    "kl_sampler_trainer": _BY_DEFAULT,
    "sampler_ratio_mean": _BY_DEFAULT,
    "evals": "vf-eval ENV -m CHECKPOINT-N -s; then: rlvitals check RUN --evals ENV=outputs/evals",
    "rollouts": "report_to='wandb' logs a table of completions",
    "checkpoints": "save_strategy='steps', save_steps=50",
}

ADAPTER = Adapter(
    info=TrainerInfo(
        name="verifiers",
        knobs=_KNOBS,
        how_to_log=_HOW_TO_LOG,
        step_base=1,
        defaults={"kl_coef": "no reference model (verifiers 0.1.8 to 0.1.14)"},
    ),
    matches=_matches,
    step_keys=("step", "train/global_step", "global_step"),
    keys=with_prefix("train/", _KEYS),
    patterns=(*_PATTERNS, *(("train/" + text, key) for text, key in _PATTERNS)),
    evals=_EVALS,
    ignore=(*_IGNORED, *("train/" + text for text in _IGNORED)),
    config=_CONFIG,
    config_rules=_config_rules,
    fixed=_FIXED,
)
