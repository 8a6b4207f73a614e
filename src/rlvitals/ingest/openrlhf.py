"""OpenRLHF's Ray PPO/GRPO trainer: console lines, TensorBoard and W&B; 0.5 to 0.11."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rlvitals.ingest.adapter import Adapter, Derived, EvalKey, Key
from rlvitals.ingest.configmap import lookup
from rlvitals.schema import Direction, Float64, RunConfig, Scope, TrainerInfo

_OLD, _REF, _SMP = Direction.OLD_NEW, Direction.TO_REFERENCE, Direction.SAMPLER_TRAINER

_PENALTY = "after the length penalties (overlong buffer, stop-properly), if any"
_MICRO = "mean over training micro-batches, not over rollouts"
_FILTERED = "dynamic filtering is on: groups that were filtered out are not in it"
_TIED = "groups whose mean score lies outside algo.dynamic_filtering_range; with the range (0, 1), tied 0/1 scores"

_KEYS: dict[str, Key] = {
    "rollout/reward_mean": Key("reward_mean", note=_PENALTY),
    "reward": Key("reward_mean", note=_PENALTY),
    "rollout/reward_std": Key("reward_std", estimator="batch", note=_PENALTY),
    "group_reward_std": Key("reward_std", estimator="group", note=_MICRO),
    "rollout/response_length_mean": Key("length_mean"),
    "response_length": Key("length_mean", note=_MICRO),
    "rollout/truncated_rate": Key("truncated_frac", estimator="finish reason"),
    "truncated": Key("truncated_frac", estimator="finish reason", note=_MICRO),
    "response_clip_ratio": Key("truncated_frac", estimator="at budget", note="prompt and response fill max_len"),
    "kl": Key("kl_ref", direction=_REF, note="estimator is algo.kl.estimator, k1 by default; 0 without a reference"),
    "ppo_kl": Key("kl_old_new", estimator="k1", direction=_OLD, note="not the distance to the reference"),
    "vllm_kl": Key("kl_sampler_trainer", estimator="k1", direction=_SMP, note="rollout minus old log-probability"),
    "entropy_loss": Key("entropy", estimator="full vocabulary", note="the entropy itself, despite the name"),
    "ppo_clip_ratio": Key("clip_frac", estimator="token"),
    "policy_loss": Key("policy_loss"),
    "actor_grad_norm": Key("grad_norm"),
    "actor_lr": Key("learning_rate"),
    "dynamic_filtering_pass_rate": Key(
        "dropped_group_frac", scale=-0.01, offset=1.0, transform="1 - percent / 100", note=_TIED
    ),
    "timing/step_total": Key("step_time_s"),
}

_IGNORED: tuple[str, ...] = (
    "score", "return", "total_length", "logprobs_diff", "rollout/num_samples", "timing/{}", "values", "critic_{}",
    "aux_loss", "global_step", "episode", "generated_samples", "eval/{}", "eval_{}", "num_actions", "ptx_loss",
)  # fmt: skip

_EVALS: tuple[EvalKey, ...] = (
    EvalKey("eval/eval_{}_pass1", "{}", metric="reward", note="mean reward of the samples"),
    EvalKey("eval/eval_{}_pass{}", "{0} pass@{1}", metric="reward", note="mean of the best reward of each prompt"),
)

_OVERVIEW = frozenset({"policy_loss", "return", "response_length", "total_length"})


def _both(keys: Mapping[str, Key]) -> dict[str, Key]:
    """Return the keys as the console prints them and, after them, as TensorBoard and W&B hold them."""
    return {**keys, **{f"train/{name}": key for name, key in keys.items()}}


def _matches(keys: frozenset[str]) -> int:
    bare = {key.removeprefix("train/") for key in keys}
    if {"rollout/reward_mean", "rollout/truncated_rate"} <= bare:
        return 95
    if "actor_grad_norm" in bare and "ppo_clip_ratio" in bare:
        return 90
    return 80 if bare >= _OVERVIEW and "reward" in bare else 0


def _refine(keys: frozenset[str], config: RunConfig) -> dict[str, Key]:
    """Return the keys whose meaning depends on the settings: KL estimator, sequence ratios, filtered groups."""
    out: dict[str, Key] = {}
    if config.kl_estimator is not None:
        out["kl"] = replace(_KEYS["kl"], estimator=config.kl_estimator, note="0 without a reference")
    if config.importance_level == "sequence":
        out["ppo_clip_ratio"] = replace(_KEYS["ppo_clip_ratio"], estimator="sequence")
    bare = {key.removeprefix("train/") for key in keys}
    if config.drops_zero_variance or "dynamic_filtering_pass_rate" in bare:
        for name, key in _KEYS.items():
            if key.metric.startswith(("reward_", "length_", "truncated_", "kl_", "entropy", "clip_")):
                base = out.get(name, key)
                note = f"{base.note}; {_FILTERED}" if base.note else _FILTERED
                out[name] = replace(base, scope=Scope.KEPT, note=note)
    return _both(out)


def _same(value: Float64) -> Float64:
    return np.asarray(value, dtype=np.float64)


_DERIVED: tuple[Derived, ...] = (
    Derived("zero_variance_frac", ("dropped_group_frac",), _same, "groups that the filter dropped", _TIED),
)

_CONFIG: dict[str, tuple[str, ...]] = {
    "group_size": ("rollout.n_samples_per_prompt", "n_samples_per_prompt"),
    "prompts_per_step": ("rollout.batch_size", "rollout_batch_size"),
    "kl_coef": ("algo.kl.init_coef", "init_kl_coef"),
    "kl_estimator": ("algo.kl.estimator", "kl_estimator"),
    "entropy_coef": ("actor.entropy_coef", "entropy_loss_coef"),
    "temperature": ("rollout.temperature", "temperature"),
    "top_p": ("rollout.top_p", "top_p"),
    "token_budget": ("rollout.max_new_tokens", "generate_max_len"),
    "prompt_budget": ("data.prompt_max_len", "prompt_max_len"),
    "context_length": ("data.max_len",),
    "sampler_correction": ("algo.advantage.is_correction_enable", "enable_vllm_is_correction"),
    "advantage_estimator": ("algo.advantage.estimator", "advantage_estimator"),
    "drops_zero_variance": ("algo.dynamic_filtering_enable", "dynamic_filtering"),
    "learning_rate": ("actor.adam.lr", "actor_learning_rate"),
    "lr_schedule": ("actor.lr_scheduler", "lr_scheduler"),
    "max_grad_norm": ("actor.max_norm", "max_norm"),
    "logging_steps": ("logger.logging_steps", "logging_steps"),
    "asynchronous": ("train.async_enable", "async_train"),
    "max_version_lag": ("train.async_queue_size", "async_queue_size"),
    "model": ("actor.model_name_or_path", "pretrain"),
}

_FAMILY = {"gae": "ppo", "reinforce": "reinforce", "reinforce_baseline": "reinforce", "group_norm": "grpo"}


def _config_rules(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    """Return clip bounds, updates per rollout batch and what the advantage estimator says."""
    out = _clip_rules(flat)
    numbers = [
        _number(flat, *paths)
        for paths in (
            ("rollout.batch_size", "rollout_batch_size"),
            ("rollout.n_samples_per_prompt", "n_samples_per_prompt"),
            ("train.batch_size", "train_batch_size"),
            ("train.max_epochs", "max_epochs"),
        )
    ]
    prompts, group, batch, epochs = numbers
    if prompts and group and batch and epochs:
        out["updates_per_rollout"] = (
            epochs * max(1.0, prompts * group / batch),
            "max_epochs x rollout batch_size x n_samples_per_prompt / train batch_size",
        )
    how = _first(flat, "algo.advantage.estimator", "advantage_estimator")
    if how is not None and isinstance(how[0], str):
        out["algorithm"] = (_FAMILY.get(how[0], how[0]), how[1])
        scaled = {"group_norm": "group", "dr_grpo": "none", "rloo": "none"}.get(how[0])
        if scaled is not None:
            out["advantage_scaling"] = (scaled, how[1])
    kind = _first(flat, "actor.policy_loss_type", "policy_loss_type")
    if kind is not None:
        out["importance_level"] = ("sequence" if kind[0] == "gspo" else "token", kind[1])
        out["loss_type"] = (kind[0], kind[1])
    in_loss = _first(flat, "algo.kl.use_loss", "use_kl_loss")
    if in_loss is not None and isinstance(in_loss[0], bool):
        out["kl_in_reward"] = (not in_loss[0], in_loss[1])
    rank = _number(flat, "ds.lora.rank", "lora_rank")
    if rank is not None:
        out["uses_lora"] = (rank > 0, "ds.lora.rank")
    return out


def _clip_rules(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    pair = _first(flat, "actor.eps_clip_low_high", "eps_clip_low_high")
    if pair is not None and isinstance(pair[0], (list, tuple)) and len(pair[0]) == 2:
        return {"clip_low": (pair[0][0], pair[1]), "clip_high": (pair[0][1], pair[1])}
    one = _first(flat, "actor.eps_clip", "eps_clip")
    return {} if one is None else {"clip_low": one, "clip_high": one}


def _first(flat: Mapping[str, object], *paths: str) -> tuple[object, str] | None:
    return next((found for path in paths if (found := lookup(flat, path)) is not None), None)


def _number(flat: Mapping[str, object], *paths: str) -> float | None:
    found = _first(flat, *paths)
    if found is None or not isinstance(found[0], (int, float)) or isinstance(found[0], bool):
        return None
    return float(found[0])


_BY_DEFAULT = "--logger.tensorboard_dir runs  # logged by default then (0.8 and older: --use_tensorboard runs)"
_EXTRA = "return it in `extra_logs` of the reward or agent function (--train.agent_func_path); logged as train/<name>"

_KNOBS: dict[str, str] = {
    "group_size": "--rollout.n_samples_per_prompt",
    "prompts_per_step": "--rollout.batch_size",
    "updates_per_rollout": "--train.batch_size and --train.max_epochs",
    "clip_low": "--actor.eps_clip_low_high (first value)",
    "clip_high": "--actor.eps_clip_low_high (second value)",
    "kl_coef": "--algo.kl.init_coef",
    "kl_estimator": "--algo.kl.estimator",
    "kl_in_reward": "--algo.kl.use_loss (leave it out to put the KL into the reward)",
    "entropy_coef": "--actor.entropy_coef",
    "temperature": "--rollout.temperature",
    "top_p": "--rollout.top_p",
    "token_budget": "--rollout.max_new_tokens",
    "loss_type": "--actor.policy_loss_type",
    "importance_level": "--actor.policy_loss_type gspo",
    "advantage_estimator": "--algo.advantage.estimator",
    "advantage_scaling": "--algo.advantage.estimator (group_norm divides by the group's deviation, dr_grpo does not)",
    "drops_zero_variance": "--algo.dynamic_filtering_enable",
    "learning_rate": "--actor.adam.lr",
    "lr_schedule": "--actor.lr_scheduler",
    "warmup_steps": "--actor.lr_warmup_ratio",
    "planned_steps": "--train.num_episodes and --data.max_samples",
    "max_grad_norm": "--actor.max_norm",
    "micro_batch": "--train.micro_batch_size",
    "logging_steps": "--logger.logging_steps",
    "max_version_lag": "--train.async_queue_size",
    "asynchronous": "--train.async_enable",
    "sync": "--vllm.sync_backend; --train.async_queue_size; --algo.advantage.is_correction_enable",
    "sampler_correction": "--algo.advantage.is_correction_enable",
    "model": "--actor.model_name_or_path",
    "curriculum": "--data.prompt_dataset",
    "mixture": "--data.prompt_dataset and --data.prompt_probs",
    "verifier": "--reward.remote_url or --train.agent_func_path",
    "parser": "the reward function behind --reward.remote_url or --train.agent_func_path",
    "reward_function": "--reward.remote_url or --train.agent_func_path",
    "eval_every": "--eval.steps",
    "checkpoint_every": "--ckpt.save_steps",
    "resume_from": "--ckpt.load_enable with --ckpt.path",
}

_FILTER = "--algo.dynamic_filtering_enable --algo.dynamic_filtering_range 0 1  # logs dynamic_filtering_pass_rate"

_HOW_TO_LOG: dict[str, str] = {
    "reward_mean": _BY_DEFAULT,
    "reward_std": _BY_DEFAULT,
    "reward_part/*": _EXTRA,
    "reward_family/*": _EXTRA,
    "success_frac": _EXTRA,
    "success_tier/*": _EXTRA,
    "parse_failure_frac": _EXTRA,
    "verifier_error_frac": _EXTRA,
    "zero_variance_frac": _FILTER,
    "dropped_group_frac": _FILTER,
    "length_mean": _BY_DEFAULT,
    "truncated_frac": _BY_DEFAULT,
    "length_max": f"{_EXTRA}: the length of the longest, as `length_max`",
    "length_right_mean": _EXTRA,
    "stop_frac/*": f"{_EXTRA}: 1.0 or 0.0 for each reason, as `stop_frac/<reason>`",
    "version_lag_mean": "no lag to log, unless --train.async_enable: then rollouts may be --train.async_queue_size old",
    "entropy": "--actor.entropy_coef 0  # logs the entropy without using it",
    "policy_loss": _BY_DEFAULT,
    "grad_norm": _BY_DEFAULT,
    "learning_rate": _BY_DEFAULT,
    "clip_frac": _BY_DEFAULT,
    "kl_ref": "--algo.kl.init_coef 0.001 --algo.kl.use_loss --algo.kl.estimator k3",
    "kl_old_new": _BY_DEFAULT,
    "kl_sampler_trainer": "--algo.advantage.is_correction_enable  # logs vllm_kl",
    "step_time_s": _BY_DEFAULT,
    "evals": "--eval.dataset DATA --eval.steps 20",
    "rollouts": "not possible without code: OpenRLHF logs one sample per step; in the reward function "
    "(--train.agent_func_path), `open('rollouts.jsonl', 'a').write(json.dumps(row) + '\\n')`",
    "config": "put the launch command into run.sh beside the log, or use --logger.wandb.key",
    "checkpoints": "--ckpt.save_steps 50",
}

ADAPTER = Adapter(
    info=TrainerInfo(
        name="OpenRLHF",
        knobs=_KNOBS,
        how_to_log=_HOW_TO_LOG,
        step_base=1,
        defaults={
            "group_size": "1 (OpenRLHF 0.11): a GRPO run must raise it",
            "kl_coef": "0.01 (OpenRLHF 0.11)",
            "kl_estimator": "k1 (OpenRLHF 0.11)",
            "kl_in_reward": "yes, unless algo.kl.use_loss is given (OpenRLHF 0.11)",
            "clip_low": "0.2 (OpenRLHF 0.11)",
            "clip_high": "0.2 (OpenRLHF 0.11)",
            "temperature": "1.0 (OpenRLHF 0.11)",
            "token_budget": "data.max_len minus the prompt (OpenRLHF 0.11); generate_max_len 1024 (0.9 and older)",
            "advantage_estimator": "gae, which is PPO with a critic (OpenRLHF 0.11)",
            "learning_rate": "1e-6 (OpenRLHF 0.11)",
            "max_grad_norm": "1.0 (OpenRLHF 0.11)",
            "eval_every": "off: eval.steps -1 (OpenRLHF 0.11)",
        },
    ),
    matches=_matches,
    step_keys=("train/global_step", "step", "global_step", "eval/global_step"),
    keys=_both(_KEYS),
    evals=_EVALS,
    derived=_DERIVED,
    ignore=(*_IGNORED, *(f"train/{text}" for text in _IGNORED)),
    config=_CONFIG,
    refine=_refine,
    config_rules=_config_rules,
)
