"""AReaL: TensorBoard, W&B, SwanLab, trackio and console tables; `grpo_actor/` up to 0.4, `ppo_actor/` since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rlvitals.ingest.adapter import Adapter, Derived, EvalKey, Key
from rlvitals.schema import Direction, Float64, RunConfig, TrainerInfo

_OLD, _SMP = Direction.OLD_NEW, Direction.SAMPLER_TRAINER

_ACTORS = ("ppo_actor", "grpo_actor")  # the scope of 0.5 and newer, and of older examples
_FLIPPED = "sign flipped"
_SCALED_KL = "KL coefficient x KL (k1 by default), given as a negative reward"

_KEYS: dict[str, Key] = {
    "task_reward/avg": Key("reward_mean", note="as the reward function gave it"),
    "task_reward/min": Key("reward_min"),
    "task_reward/max": Key("reward_max"),
    "advantages/avg": Key("advantage_mean", estimator="token mean"),
    "advantages/min": Key("advantage_min"),
    "advantages/max": Key("advantage_max"),
    "prompt_len/avg": Key("prompt_length_mean", note="every token that is not trained on, tool output included"),
    "kl_rewards/avg": Key("kl_loss", scale=-1.0, transform=_FLIPPED, note=_SCALED_KL),
    "update/approx_kl/avg": Key(
        "kl_old_new", scale=-1.0, estimator="k1", direction=_OLD, transform=_FLIPPED,
        note="logged as new minus proximal log-probability; not the distance to the reference",
    ),
    "update/entropy/avg": Key("entropy", estimator="full vocabulary"),
    "update/clip_ratio/avg": Key("clip_frac", estimator="token"),
    "update/importance_weight/avg": Key("ratio_mean"),
    "update/importance_weight/max": Key("ratio_max"),
    "update/importance_weight/min": Key("ratio_min"),
    "update/behave_approx_kl/avg": Key(
        "kl_sampler_trainer", scale=-1.0, estimator="k1", direction=_SMP, transform=_FLIPPED,
        note="logged as proximal minus sampler log-probability, staleness included; capped tokens left out",
    ),
    "update/behave_imp_weight/avg": Key("sampler_ratio_mean", estimator="after truncation", direction=_SMP),
    "update/behave_imp_weight/max": Key("sampler_ratio_max", estimator="after truncation", direction=_SMP),
    "update/behave_imp_weight/min": Key("sampler_ratio_min", estimator="after truncation", direction=_SMP),
    "update/actor_loss/avg": Key("policy_loss"),
    "update/loss/avg": Key("loss"),
    "update/grad_norm": Key("grad_norm"),
    "update/lr": Key("learning_rate"),
    "update/version_stats/sample_staleness_theta_avg": Key("version_lag_mean"),
    "update/version_stats/sample_staleness_theta_max": Key("version_lag_max"),
    "n_tokens": Key("tokens_total", note="of the step, padding included"),
}  # fmt: skip

_ROLLOUT: dict[str, Key] = {
    "rollout/reward": Key("reward_mean", note="of all rollouts, those that should_accept_fn rejected included"),
    "rollout/num_turns": Key("turns_mean"),
    "timeperf/train_step": Key("step_time_s", note="the update alone, without waiting for rollouts"),
}

_IGNORED: tuple[str, ...] = ("rollout/{}", "timeperf/{}", "eval-rollout/{}", "ppo_critic/{}", "time_perf/{}", "ref/{}")

_EVALS: tuple[EvalKey, ...] = (EvalKey("eval-rollout/reward", "eval-rollout", metric="reward"),)


def _scoped(keys: Mapping[str, Key]) -> dict[str, Key]:
    return {f"{actor}/{name}": key for actor in _ACTORS for name, key in keys.items()}


def _matches(keys: frozenset[str]) -> int:
    scoped = {key.partition("/")[2] for key in keys if key.startswith(_ACTORS)}
    if "task_reward/avg" in scoped:
        return 97
    return 85 if scoped & {"update/approx_kl/avg", "update/clip_ratio/avg", "n_valid_tokens"} else 0


def _refine(keys: frozenset[str], config: RunConfig) -> dict[str, Key]:
    """Return the keys whose meaning depends on the settings: the KL once its coefficient is known, GSPO's ratios."""
    out: dict[str, Key] = {}
    if config.kl_coef is not None and config.kl_coef > 0:
        out["kl_rewards/avg"] = Key(
            "kl_ref", scale=-1.0 / config.kl_coef, estimator=config.kl_estimator or "k1",
            direction=Direction.TO_REFERENCE, transform=f"-x / {config.kl_coef:g} (kl_ctl)",
            note="given as a reward: kl_rewards",
        )  # fmt: skip
    if config.importance_level == "sequence":
        for name in ("update/clip_ratio/avg", "update/importance_weight/avg"):
            out[name] = replace(_KEYS[name], estimator="sequence")
    return _scoped(out)


def _without_prompt(whole: Float64, prompt: Float64) -> Float64:
    return np.asarray(whole - prompt, dtype=np.float64)


def _earning(of_them: Float64, prompt: Float64, count: Float64) -> Float64:
    """Return the length where any sequence is counted; an average over none says nothing."""
    return np.where(np.asarray(count) > 0, of_them - prompt, np.nan)


_MEAN_PROMPT = "the mean prompt of all sequences is taken off"


def _derived() -> tuple[Derived, ...]:
    out: list[Derived] = []
    for actor in _ACTORS:
        prompt = f"{actor}/prompt_len/avg"
        out.append(Derived("length_mean", (f"{actor}/seq_len/avg", prompt), _without_prompt, "seq_len - prompt_len"))
        for metric, kind, note in (
            ("length_right_mean", "correct", "reward above 0"),
            ("length_wrong_mean", "incorrect", "reward of 0 or less"),
        ):
            inputs = (f"{actor}/{kind}_seq_len/avg", prompt, f"{actor}/{kind}_n_seqs")
            out.append(Derived(metric, inputs, _earning, f"{kind}_seq_len - prompt_len", f"{note}; {_MEAN_PROMPT}"))
    return tuple(out)


_CONFIG: dict[str, tuple[str, ...]] = {
    "group_size": ("gconfig.n_samples",),
    "prompts_per_step": ("train_dataset.batch_size",),
    "clip_low": ("actor.eps_clip",),
    "clip_high": ("actor.eps_clip_higher", "actor.eps_clip"),
    "kl_coef": ("actor.kl_ctl",),
    "kl_estimator": ("actor.kl_estimator",),
    "temperature": ("gconfig.temperature",),
    "top_p": ("gconfig.top_p",),
    "token_budget": ("gconfig.max_new_tokens",),
    "trainer_temperature": ("actor.temperature",),
    "sampler_correction": ("actor.use_decoupled_loss",),
    "updates_per_rollout": ("actor.ppo_n_minibatches",),
    "importance_level": ("actor.importance_sampling_level",),
    "learning_rate": ("actor.optimizer.lr",),
    "lr_schedule": ("actor.optimizer.lr_scheduler_type",),
    "planned_steps": ("total_train_steps",),
    "max_grad_norm": ("actor.optimizer.gradient_clipping",),
    "max_version_lag": ("rollout.max_head_offpolicyness",),
    "uses_lora": ("actor.use_lora",),
    "model": ("actor.path",),
}

_FIXED = RunConfig(
    kl_in_reward=True, loss_aggregation="token mean",
    sources=dict.fromkeys(("kl_in_reward", "loss_aggregation"), "AReaL: the KL enters the reward, losses weigh tokens"),
)  # fmt: skip


def _config_rules(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    """Return how advantages are scaled, and whether rollouts run ahead of the update."""
    out: dict[str, tuple[object, str]] = {}
    for name in ("adv_norm", "reward_norm"):
        level = flat.get(f"actor.{name}.std_level")
        if isinstance(level, str):
            out["advantage_scaling"] = (level, f"actor.{name}.std_level")
    lag = flat.get("rollout.max_head_offpolicyness")
    if isinstance(lag, (int, float)) and not isinstance(lag, bool):
        out["asynchronous"] = (lag > 0, "rollout.max_head_offpolicyness")
    if "ref.path" in flat:
        out["loads_reference"] = (True, "ref.path")
    if flat.get("actor.use_sapo_loss") is True:
        out["loss_type"] = ("sapo", "actor.use_sapo_loss")
    return out


_BY_DEFAULT = "stats_logger.tensorboard.path=tb  # logged by default then"
_TRACK = (
    "stats_tracker.get(workflow_context.stat_scope()).scalar(<name>=value) in your workflow; logged as rollout/<name>"
)
_DUMP = "rollout.dump_to_file=true  # one JSONL file per task under <log dir>/rollout/<version>/"

_KNOBS: dict[str, str] = {
    "group_size": "gconfig.n_samples",
    "prompts_per_step": "train_dataset.batch_size",
    "updates_per_rollout": "actor.ppo_n_minibatches",
    "clip_low": "actor.eps_clip",
    "clip_high": "actor.eps_clip_higher",
    "kl_coef": "actor.kl_ctl",
    "kl_estimator": "actor.kl_estimator",
    "entropy_coef": "entropy bonus (AReaL has none; raise gconfig.temperature or actor.eps_clip_higher)",
    "temperature": "gconfig.temperature",
    "top_p": "gconfig.top_p",
    "token_budget": "gconfig.max_new_tokens",
    "loss_type": "actor.use_sapo_loss",
    "importance_level": "actor.importance_sampling_level",
    "advantage_estimator": "actor.adv_norm and actor.reward_norm",
    "advantage_scaling": "actor.adv_norm.std_level",
    "drops_zero_variance": "should_accept_fn of prepare_batch",
    "masks_truncated": "actor.mask_no_eos_with_zero",
    "learning_rate": "actor.optimizer.lr",
    "lr_schedule": "actor.optimizer.lr_scheduler_type",
    "warmup_steps": "actor.optimizer.warmup_steps_proportion",
    "planned_steps": "total_train_steps or total_train_epochs",
    "max_grad_norm": "actor.optimizer.gradient_clipping",
    "micro_batch": "actor.mb_spec.max_tokens_per_mb",
    "max_version_lag": "rollout.max_head_offpolicyness",
    "asynchronous": "rollout.max_head_offpolicyness (0 is synchronous)",
    "sync": "rollout.max_head_offpolicyness and actor.weight_update_mode",
    "sampler_correction": "actor.use_decoupled_loss and actor.rejection_sampling",
    "model": "actor.path",
    "curriculum": "train_dataset.path",
    "mixture": "train_dataset.path",
    "verifier": "reward_fn of your workflow (RLVRWorkflow)",
    "parser": "reward_fn of your workflow (RLVRWorkflow)",
    "reward_function": "reward_fn of your workflow (RLVRWorkflow)",
    "eval_every": "evaluator.freq_steps",
    "checkpoint_every": "saver.freq_steps",
    "resume_from": "recover.mode=auto",
}

_HOW_TO_LOG: dict[str, str] = {
    "reward_mean": _BY_DEFAULT,
    "reward_min": _BY_DEFAULT,
    "reward_max": _BY_DEFAULT,
    "reward_part/*": _TRACK,
    "reward_family/*": _TRACK,
    "success_frac": _TRACK,
    "success_tier/*": _TRACK,
    "parse_failure_frac": _TRACK,
    "verifier_error_frac": _TRACK,
    "zero_variance_frac": "not possible without code: with rollout.dump_to_file=true, append "
    '`{"step": version, "zero_variance_frac": share}` of the task ids whose rewards are equal to a JSONL file',
    "truncated_frac": f"{_TRACK}, with 1.0 where the stop reason is 'length' (no_eos_ratios is not that)",
    "stop_frac/*": _TRACK,
    "advantage_mean": _BY_DEFAULT,
    "length_mean": _BY_DEFAULT,
    "length_max": _TRACK + "; or rollout.dump_to_file=true, where each rollout has its length",
    "length_right_mean": _BY_DEFAULT,
    "length_wrong_mean": _BY_DEFAULT,
    "prompt_length_mean": _BY_DEFAULT,
    "turns_mean": "logged by MultiTurnWorkflow as rollout/num_turns",
    "entropy": _BY_DEFAULT,
    "policy_loss": _BY_DEFAULT,
    "grad_norm": _BY_DEFAULT,
    "learning_rate": _BY_DEFAULT,
    "clip_frac": _BY_DEFAULT,
    "ratio_mean": _BY_DEFAULT,
    "kl_ref": "actor.kl_ctl=0.001 and a `ref` section; logged as kl_rewards",
    "kl_old_new": _BY_DEFAULT,
    "kl_sampler_trainer": "actor.use_decoupled_loss=true actor.recompute_logprob=true  # logs behave_approx_kl",
    "sampler_ratio_mean": "actor.use_decoupled_loss=true actor.recompute_logprob=true  # logs behave_imp_weight",
    "version_lag_mean": _BY_DEFAULT,
    "version_lag_max": _BY_DEFAULT,
    "evals": "valid_dataset and evaluator.freq_steps=20",
    "rollouts": _DUMP,
    "config": "config.yaml in the log directory is written by default",
    "checkpoints": "saver.freq_steps=50",
}

ADAPTER = Adapter(
    info=TrainerInfo(
        name="AReaL",
        knobs=_KNOBS,
        how_to_log=_HOW_TO_LOG,
        step_base=0,
        defaults={
            "group_size": "1 (AReaL 1.0): a GRPO run must raise it",
            "kl_coef": "0.1 (AReaL 1.0)",
            "kl_estimator": "k1 (AReaL 1.0)",
            "clip_low": "0.2 (AReaL 1.0)",
            "updates_per_rollout": "4 (AReaL 1.0)",
            "temperature": "1.0 (AReaL 1.0)",
            "token_budget": "16384 (AReaL 1.0)",
            "learning_rate": "1e-3, which an RL run must lower (AReaL 1.0)",
            "max_grad_norm": "1.0 (AReaL 1.0)",
            "max_version_lag": "0, synchronous (AReaL 1.0)",
        },
    ),
    matches=_matches,
    step_keys=("step", "system/global_step", "_step"),
    keys={**_scoped(_KEYS), **_ROLLOUT},
    evals=_EVALS,
    derived=_derived(),
    ignore=(*_IGNORED, *(f"{actor}/{{}}" for actor in _ACTORS)),
    config=_CONFIG,
    refine=_refine,
    config_rules=_config_rules,
    fixed=_FIXED,
)
