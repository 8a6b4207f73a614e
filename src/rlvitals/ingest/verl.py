"""verl: console lines, the JSONL file logger, W&B, TensorBoard and MLflow exports; trainers v0 and v1, 0.1 to 0.9."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from rlvitals.ingest.adapter import Adapter, EvalKey, Key
from rlvitals.ingest.verl_words import INFO
from rlvitals.schema import Direction, Provenance, RunConfig, Scope, Status

_OLD, _REF, _SMP = Direction.OLD_NEW, Direction.TO_REFERENCE, Direction.SAMPLER_TRAINER

_REWARD_NOTE = "raw score, before any KL penalty"
_ENTROPY = Key("entropy", estimator="full vocabulary")
_OLD_ENTROPY = Key("entropy", estimator="full vocabulary", note="verl before 0.5 logs the entropy as entropy_loss")

_KEYS: dict[str, Key] = {
    "critic/score/mean": Key("reward_mean", note=_REWARD_NOTE),
    "critic/score/max": Key("reward_max", note=_REWARD_NOTE),
    "critic/score/min": Key("reward_min", note=_REWARD_NOTE),
    "critic/advantages/mean": Key("advantage_mean", estimator="token mean"),
    "critic/advantages/max": Key("advantage_max"),
    "critic/advantages/min": Key("advantage_min"),
    "actor/entropy": _ENTROPY,
    "actor/pg_loss": Key("policy_loss"),
    "actor/loss": Key("loss"),
    "actor/ppo_kl": Key("kl_old_new", estimator="k1", direction=_OLD, note="not the distance to the reference"),
    "actor/pg_clipfrac": Key("clip_frac", estimator="token"),
    "actor/kl_loss": Key("kl_ref", estimator="k3", direction=_REF),
    "actor/kl_coef": Key("kl_coef"),
    "actor/grad_norm": Key("grad_norm"),
    "actor/lr": Key("learning_rate"),
    "response_length/mean": Key("length_mean", note="tool and observation tokens included"),
    "response_length/max": Key("length_max"),
    "response_length/min": Key("length_min"),
    "response_length/clip_ratio": Key("truncated_frac", estimator="at budget"),
    "prompt_length/mean": Key("prompt_length_mean"),
    "num_turns/mean": Key("turns_mean"),
    "training/num_turns/mean": Key("turns_mean"),
    "training/rollout_probs_diff_mean": Key("prob_gap_mean", direction=_SMP),
    "training/rollout_probs_diff_max": Key("prob_gap_max", direction=_SMP),
    "training/rollout_actor_probs_pearson_corr": Key("sampler_corr", direction=_SMP),
    "training/off_policy/trajectory_staleness/mean": Key("version_lag_mean"),
    "training/off_policy/trajectory_staleness/max": Key("version_lag_max"),
    "perf/time_per_step": Key("step_time_s"),
    "perf/throughput": Key("tokens_per_second", note="per GPU"),
    "perf/total_num_tokens": Key("tokens_total", note="prompt and response tokens of the step"),
    "training/epoch": Key("epoch"),
}

# The same sampler correction under the names of 0.6 ("mismatch/") and of later versions ("rollout_corr/").
_CORRECTION: dict[str, Key] = {
    "rollout_is_mean": Key("sampler_ratio_mean", direction=_SMP),
    "rollout_is_min": Key("sampler_ratio_min", direction=_SMP),
    "rollout_is_max": Key("sampler_ratio_max", direction=_SMP),
    "rollout_is_eff_sample_size": Key("effective_sample_frac", direction=_SMP),
}
_K3_KEYS = ("rollout_corr/k3_kl", "mismatch/mismatch_k3_kl")
_K1_KEYS = ("rollout_corr/kl", "mismatch/mismatch_kl")
_K3 = Key("kl_sampler_trainer", estimator="k3", direction=_SMP)
_K1 = Key("kl_sampler_trainer", estimator="k1", direction=_SMP)

_IGNORED: tuple[str, ...] = (
    "critic/returns/{}",
    "critic/rewards/{}",
    "critic/values/{}",
    "critic/vf_{}",
    "critic/vpred_mean",
    "critic/grad_norm",
    "critic/lr",
    "actor/pg_clipfrac_lower",  # share cut by the dual clip, not by the lower bound
    "actor/entropy_loss",
    "actor/reward_kl_penalty",
    "actor/reward_kl_penalty_coeff",
    "response_length/{}",
    "response_length_non_aborted/{}",
    "response/aborted_ratio",
    "prompt_length/{}",
    "num_turns/{}",
    "tool_call_counts/{}",
    "training/num_turns/{}",
    "training/rollout_probs_diff_{}",
    "training/off_policy/{}",
    "training/filter_groups/{}",
    "training/rollout_failure/{}",
    "train/num_gen_batches",
    "rollout_corr/{}",
    "mismatch/{}",
    "timing_s/{}",
    "timing_per_token_ms/{}",
    "timing/{}",
    "perf/{}",
    "global_seqlen/{}",
    "fully_async/{}",
    "val-core/{}",
    "val-aux/{}",
    "val/{}",
)

_EVALS: tuple[EvalKey, ...] = (
    EvalKey("val-core/{}/acc/mean@{}", "{0}"),
    EvalKey("val-core/{}/acc/best@{}/mean", "{0} best@{1}"),
    EvalKey("val-core/{}/acc/maj@{}/mean", "{0} maj@{1}"),
    EvalKey("val-core/{}/reward/mean@{}", "{0} reward", metric="reward"),
    EvalKey("val-aux/{}/reward/mean@{}", "{0} reward", metric="reward"),
    EvalKey("val/test_score/{}", "{}", metric="reward", note="verl before 0.3: mean score"),
)


def _flat(text: str) -> str:
    """Return a key as CSV and Prometheus exports spell it."""
    return text.replace("/", "_")


def _both(keys: Mapping[str, Key]) -> dict[str, Key]:
    return {**keys, **{_flat(name): key for name, key in keys.items()}}


def _spellings(each: EvalKey) -> tuple[EvalKey, ...]:
    """Return an eval key with `@` (verl), `_at_` (MLflow) and `_` for `/` (CSV exports)."""
    names = (each.pattern, each.pattern.replace("@", "_at_"))
    patterns = dict.fromkeys((*names, *map(_flat, names)))
    return tuple(replace(each, pattern=pattern) for pattern in patterns)


def _with_prefixes(keys: Mapping[str, Key]) -> dict[str, Key]:
    return {f"{prefix}/{name}": key for prefix in ("rollout_corr", "mismatch") for name, key in keys.items()}


# Means over the groups that are left when `algorithm.filter_groups` throws tied ones away (both trainers).
_FILTERED: tuple[str, ...] = (
    "critic/score/mean",
    "critic/score/max",
    "critic/score/min",
    "critic/advantages/mean",
    "response_length/mean",
    "response_length/clip_ratio",
    "actor/entropy",
)
_DROPPED = "tied groups were thrown away before (algorithm.filter_groups)"


def _matches(keys: frozenset[str]) -> int:
    flat = {_flat(key) for key in keys}
    scored = bool(flat & {"critic_score_mean", "critic_rewards_mean"})
    if scored and "response_length_mean" in flat:
        return 95
    if scored and any(key.startswith(("actor_", "timing_s_", "val-")) for key in flat):
        return 80
    return 70 if any(key.startswith(("val-core_", "val_test_score_")) for key in flat) else 0


def _refine(keys: frozenset[str], config: RunConfig) -> dict[str, Key]:
    """Return the keys whose meaning depends on what else is logged, or on the config."""
    out: dict[str, Key] = {}
    flat = {_flat(key): key for key in sorted(keys, reverse=True)}  # of two spellings the one with slashes
    if "critic_score_mean" not in flat:
        note = "reward after the KL penalty: this log has no raw score"
        for part in ("mean", "max", "min"):
            _add(out, flat, f"critic/rewards/{part}", Key(f"reward_{part}", transform="after KL", note=note))
    if "actor_entropy" not in flat:
        _add(out, flat, "actor/entropy_loss", _OLD_ENTROPY)
    if "actor_kl_loss" not in flat:
        _add(out, flat, "actor/reward_kl_penalty", Key("kl_ref", estimator=config.kl_estimator or "k1", direction=_REF))
        _add(out, flat, "actor/reward_kl_penalty_coeff", Key("kl_coef"))
    elif config.kl_estimator is not None:
        _add(out, flat, "actor/kl_loss", replace(_KEYS["actor/kl_loss"], estimator=config.kl_estimator))
    has_k3 = any(_flat(key) in flat for key in _K3_KEYS)
    for key in _K3_KEYS if has_k3 else _K1_KEYS:
        _add(out, flat, key, _K3 if has_k3 else _K1)
    if config.drops_zero_variance:
        for name in _FILTERED:
            base = out.get(flat.get(_flat(name), ""), _KEYS[name])
            note = "; ".join(text for text in (base.note, _DROPPED) if text)
            _add(out, flat, name, replace(base, scope=Scope.KEPT, note=note))
    if config.importance_level == "sequence":
        _add(out, flat, "actor/pg_clipfrac", Key("clip_frac", estimator="sequence"))
    if config.loss_aggregation == "sequence sum":
        note = "summed over tokens: loss_agg_mode is seq-mean-token-sum"
        for name in ("actor/entropy", "actor/kl_loss"):
            base = out.get(flat.get(_flat(name), ""), _KEYS[name])
            _add(out, flat, name, replace(base, unit="nats/sequence", note=note))
    return out


def _add(out: dict[str, Key], flat: Mapping[str, str], name: str, key: Key) -> None:
    raw = flat.get(_flat(name))
    if raw is not None:
        out[raw] = key


_ROUNDED = "this verl prints three decimals, so a small learning rate shows as 0.000"


def _finish(provenance: Mapping[str, Provenance], config: RunConfig) -> dict[str, Provenance]:
    """Mark the learning rate of consoles that round it away (verl before 0.5) as a placeholder."""
    out = dict(provenance)
    entropy, rate = out.get("entropy"), out.get("learning_rate")
    old = entropy is not None and _flat(entropy.key) == "actor_entropy_loss"
    if old and rate is not None and not rate.file.lower().endswith((".jsonl", ".json", ".csv", ".tsv", ".parquet")):
        out["learning_rate"] = replace(rate, status=Status.PLACEHOLDER, note=_ROUNDED)
    return out


_ROLLOUT, _ACTOR = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"

_CONFIG: dict[str, tuple[str, ...]] = {
    "group_size": (f"{_ROLLOUT}.n",),
    "prompts_per_step": ("data.train_batch_size",),
    "clip_low": (f"{_ACTOR}.clip_ratio_low", f"{_ACTOR}.clip_ratio"),
    "clip_high": (f"{_ACTOR}.clip_ratio_high", f"{_ACTOR}.clip_ratio"),
    "kl_in_reward": ("algorithm.use_kl_in_reward",),
    "entropy_coef": (f"{_ACTOR}.entropy_coeff",),
    "temperature": (f"{_ROLLOUT}.temperature",),
    "top_p": (f"{_ROLLOUT}.top_p",),
    "top_k": (f"{_ROLLOUT}.top_k",),
    "token_budget": ("data.max_response_length", f"{_ROLLOUT}.response_length"),
    "prompt_budget": ("data.max_prompt_length", f"{_ROLLOUT}.prompt_length"),
    "context_length": (f"{_ROLLOUT}.max_model_len",),
    "max_version_lag": ("async_training.staleness_threshold",),
    "loss_aggregation": (f"{_ACTOR}.loss_agg_mode",),
    "advantage_estimator": ("algorithm.adv_estimator",),
    "advantage_scaling": ("algorithm.norm_adv_by_std_in_grpo",),
    "drops_zero_variance": ("algorithm.filter_groups.enable",),
    "learning_rate": (f"{_ACTOR}.optim.lr",),
    "lr_schedule": (f"{_ACTOR}.optim.lr_scheduler_type", f"{_ACTOR}.optim.warmup_style"),
    "warmup_steps": (f"{_ACTOR}.optim.lr_warmup_steps",),
    "planned_steps": ("trainer.total_training_steps", f"{_ACTOR}.optim.total_training_steps"),
    "max_grad_norm": (f"{_ACTOR}.grad_clip", f"{_ACTOR}.optim.clip_grad"),
    "model": ("actor_rollout_ref.model.path",),
}


def _config_rules(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    """Return the fields that several verl settings decide together."""
    out: dict[str, tuple[object, str]] = {**_kl_rules(flat), **_loss_rules(flat)}
    mini, batch, epochs = (
        _number(flat, path)
        for path in (f"{_ACTOR}.ppo_mini_batch_size", "data.train_batch_size", f"{_ACTOR}.ppo_epochs")
    )
    if mini and batch and epochs:
        paths = "ppo_epochs x train_batch_size / ppo_mini_batch_size"
        out["updates_per_rollout"] = (epochs * max(1, math.ceil(batch / mini)), paths)
    per_node, nodes = _number(flat, "trainer.n_gpus_per_node"), _number(flat, "trainer.nnodes")
    if per_node and nodes:
        out["gpus"] = (per_node * nodes, "trainer.n_gpus_per_node x trainer.nnodes")
    rank = _number(flat, "actor_rollout_ref.model.lora_rank")
    if rank is not None:
        out["uses_lora"] = (rank > 0, "actor_rollout_ref.model.lora_rank")
    temperature = flat.get(f"{_ROLLOUT}.temperature")
    if temperature is not None:
        out["trainer_temperature"] = (temperature, f"{_ROLLOUT}.temperature, by which verl divides its logits too")
    correction = [flat.get(f"algorithm.rollout_correction.{name}") for name in ("rollout_is", "rollout_rs")]
    if any(path.startswith("algorithm.rollout_correction.") for path in flat):
        out["sampler_correction"] = (any(correction), "algorithm.rollout_correction")
    if any(path.startswith("async_training.") for path in flat):
        out["asynchronous"] = (True, "async_training")
    return out


def _kl_rules(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    """Return coefficient and estimator of the KL term that is switched on; coefficient 0 where none is."""
    in_loss, in_reward = flat.get(f"{_ACTOR}.use_kl_loss"), flat.get("algorithm.use_kl_in_reward")
    if _true(in_loss):
        out: dict[str, tuple[object, str]] = {}
        _copy(out, flat, "kl_coef", f"{_ACTOR}.kl_loss_coef")
        _copy(out, flat, "kl_estimator", f"{_ACTOR}.kl_loss_type")
        return out
    if _true(in_reward):
        out = {}
        _copy(out, flat, "kl_coef", "algorithm.kl_ctrl.kl_coef")
        _copy(out, flat, "kl_estimator", "algorithm.kl_penalty")
        return out
    if in_loss is not None and in_reward is not None:
        return {"kl_coef": (0.0, "actor.use_kl_loss and algorithm.use_kl_in_reward are off")}
    return {}


def _loss_rules(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    out: dict[str, tuple[object, str]] = {}
    mode_path, how_path = f"{_ACTOR}.policy_loss.loss_mode", "algorithm.adv_estimator"
    mode, how = flat.get(mode_path), flat.get(how_path)
    if isinstance(mode, str) and mode != "vanilla":
        out["loss_type"] = (mode, mode_path)
    if isinstance(mode, str):
        out["importance_level"] = ("sequence" if mode == "gspo" else "token", mode_path)
    if isinstance(how, str):
        family = "ppo" if how == "gae" else "reinforce" if how.startswith("reinforce") else how
        out["algorithm"] = (family, how_path)
    return out


def _copy(out: dict[str, tuple[object, str]], flat: Mapping[str, object], field: str, path: str) -> None:
    if flat.get(path) is not None:
        out[field] = (flat[path], path)


def _true(value: object) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def _number(flat: Mapping[str, object], path: str) -> float | None:
    value = flat.get(path, flat.get(path.removeprefix("actor_rollout_ref.")))  # reports often leave the prefix out
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


ADAPTER = Adapter(
    info=INFO,
    matches=_matches,
    step_keys=("step", "training/global_step", "training_global_step", "_step"),
    keys=_both({**_KEYS, **_with_prefixes(_CORRECTION)}),
    evals=tuple(spelling for each in _EVALS for spelling in _spellings(each)),
    ignore=(*_IGNORED, *(_flat(pattern) for pattern in _IGNORED)),
    config=_CONFIG,
    refine=_refine,
    finish=_finish,
    config_rules=_config_rules,
)
